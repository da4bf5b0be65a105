package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace to enter. Without a file it is the current one.
type namespace struct{ file *os.File }

// openNamespace opens a namespace by a path or a process id. An empty name is the current namespace.
func openNamespace(name string) (namespace, error) {
	if name == "" {
		return namespace{}, nil
	}
	if pid, err := strconv.ParseUint(name, 10, 31); err == nil {
		name = fmt.Sprintf("/proc/%d/ns/net", pid)
	}
	file, err := os.Open(name)
	return namespace{file}, err
}

// do runs f in the namespace, on a separate thread that ends with it, so that no other goroutine runs there.
func (n namespace) do(f func() error) error {
	if n.file == nil {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET)
		if err != nil {
			err = fmt.Errorf("enter the network namespace %s: %w", n.file.Name(), err)
		} else {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (n namespace) close() {
	if n.file != nil {
		n.file.Close()
	}
}
