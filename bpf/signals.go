package bpf

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// undisturbed runs load while its thread gets no signal. The kernel gives up the verification of a program, which takes about a millisecond,
// when a signal is pending, and package ebpf begins again. A program whose timer sends a signal a thousand times a second would wait forever.
func undisturbed(load func() error) error {
	var blocked, before unix.Sigset_t
	for i := range blocked.Val {
		blocked.Val[i]--
	}
	for _, fault := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} { // they end a process that blocks them
		blocked.Val[0] &^= 1 << (fault - 1)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &blocked, &before); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	err := load()
	if restored := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); restored != nil {
		panic(fmt.Errorf("bpf: restore the signal mask: %w", restored)) // the thread would miss signals of the runtime
	}
	return err
}
