package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ndxdp/ndxdp/cmd/internal/cli"
)

// Busy processes compete for cores during a measurement. They end with the run, with the parent process, and after maxBusy.
const (
	maxBeside = 64
	maxBusy   = time.Hour
)

// registerBeside registers the flag --beside.
func registerBeside(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "beside", 0, "number of processes that keep cores busy during the tests")
}

func checkBeside(n int) error {
	if n < 0 || n > maxBeside {
		return cli.Usagef("--beside %d is out of range: 0 to %d processes", n, maxBeside)
	}
	return nil
}

// startBusy starts n processes that compute until stop is called.
func startBusy(n int) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	for range n {
		one, err := startOneBusy()
		if err != nil {
			stop()
			return nil, fmt.Errorf("--beside: %w", err)
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// startOneBusy locks the thread that starts the process until the process ends, because the kernel kills the child when the thread
// ends, and Go may end threads at any time.
func startOneBusy() (stop func(), err error) {
	cmd := exec.Command("/proc/self/exe", "busy")
	cmd.Args[0] = "ndperf"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, or its input ended, as intended
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // or it has ended already
		_ = stdin.Close()
		<-ended
	}, nil
}

// newBusy returns the command that keeps a core busy.
func newBusy() *cobra.Command {
	return &cobra.Command{
		Use:    "busy",
		Short:  "Keep a core busy until standard input ends; started by ndperf itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, os.Stdin)
				ended <- err
			}()
			return compute(cmd.Context().Done(), ended, time.Now().Add(maxBusy))
		},
	}
}

// errTooLong is the error of a busy process that was not ended in time.
var errTooLong = errors.New("standard input did not end in time: ndperf was to end this process")

// compute uses one core until stop is closed.
func compute(stop <-chan struct{}, ended <-chan error, until time.Time) error {
	const turns = 1 << 16 // takes well below a millisecond
	for x := uint64(1); ; {
		for range turns {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		select {
		case <-stop:
			return nil
		case err := <-ended:
			return err
		default:
			if x == 0 || time.Now().After(until) { // x is never 0
				return errTooLong
			}
		}
	}
}
