package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// threadNetPath is the network namespace of the calling thread. /proc/self has the main thread's namespace.
const threadNetPath = "/proc/thread-self/ns/net"

// Namespace is an anonymous network namespace that a descriptor keeps alive.
type Namespace struct {
	mu sync.RWMutex // prevents Close while a call uses the descriptor
	// file is nil after Close.
	file *os.File
}

// New makes an empty network namespace with the loopback interface up. The caller's namespace does not change.
func New() (*Namespace, error) {
	n := &Namespace{}
	err := onRestoredThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w%s", err, remedy(err))
		}
		file, err := os.Open(threadNetPath)
		n.file = file
		return err
	})
	if err == nil {
		err = n.prepareLoopback()
	}
	if err != nil {
		return nil, fmt.Errorf("netlab: new namespace: %w", errors.Join(err, n.Close()))
	}
	return n, nil
}

// FD returns the descriptor of the namespace, or -1 after Close. The Namespace still owns it.
func (n *Namespace) FD() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.file == nil {
		return -1
	}
	return int(n.file.Fd())
}

// Do runs fn on the calling goroutine, locked to a thread inside the namespace. It returns to the previous namespace even if fn
// panics or ends its goroutine. If the return fails, the thread stays locked, so that the runtime ends it with the goroutine and no
// other goroutine runs there. Calls may be nested. The namespace may be closed while fn runs, because the thread keeps it alive.
func (n *Namespace) Do(fn func() error) error {
	return onRestoredThread(func() error {
		if err := n.enter(); err != nil {
			return fmt.Errorf("netlab: %w", err)
		}
		return fn()
	})
}

// Close closes the descriptor. The kernel removes the namespace when nothing else holds it. Further calls have no effect.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		return nil
	}
	err := n.file.Close()
	n.file = nil
	return err
}

// StartProcess starts cmd inside the namespace. The process is killed when this process ends, in whatever way. The caller calls
// cmd.Wait as usual. SysProcAttr.Pdeathsig is overwritten.
//
// Linux sends the parent-death signal when the *thread* that forked ends, not the process. So a thread forks and then sleeps until
// the child has ended: one thread for each running child.
func (n *Namespace) StartProcess(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := n.Do(cmd.Start)
		started <- err
		if err == nil {
			awaitExit(cmd.Process.Pid)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("netlab: start %s: %w", cmd.Path, err)
	}
	return nil
}

// awaitExit returns when the child is a zombie or was reaped. It leaves the reaping to cmd.Wait.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (n *Namespace) enter() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.file == nil {
		return fmt.Errorf("enter namespace: %w", os.ErrClosed)
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace: %w%s", err, remedy(err))
	}
	return nil
}

// onRestoredThread runs fn, which may change the thread's network namespace, and then restores the namespace.
func onRestoredThread(fn func() error) (err error) {
	runtime.LockOSThread()
	home, err := os.Open(threadNetPath)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("netlab: find own namespace: %w", err)
	}
	defer func() {
		defer home.Close()
		if backErr := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); backErr != nil {
			err = errors.Join(err, fmt.Errorf("netlab: return to own namespace: %w", backErr))
			return // the thread stays locked: see Do
		}
		runtime.UnlockOSThread()
	}()
	return fn()
}

// remedy returns the usual reason of a refusal by the kernel, as the end of a sentence.
func remedy(err error) string {
	if errors.Is(err, unix.EPERM) {
		return " (needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root)"
	}
	return ""
}
