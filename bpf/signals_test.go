package bpf

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// TestLoadsUndisturbed checks the signal mask of the thread that loads a program: during the load it has all signals except faults, and
// afterwards it is as before.
// "stress signals" of the libfabric provider's tests opens an adapter while signals arrive.
func TestLoadsUndisturbed(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := func() (set unix.Sigset_t) {
		testhelp.Must(t, unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set))
		return set
	}
	blocks := func(set unix.Sigset_t, s unix.Signal) bool { return set.Val[0]>>(s-1)&1 != 0 }
	before := mask()
	testhelp.Must(t, undisturbed(func() error {
		during := mask()
		for _, s := range []unix.Signal{unix.SIGALRM, unix.SIGPROF, unix.SIGURG, unix.SIGVTALRM, unix.SIGTERM} {
			if !blocks(during, s) {
				t.Errorf("signal %v interrupts a load", s)
			}
		}
		for _, s := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS} {
			if blocks(during, s) {
				t.Errorf("the fault %v is blocked", s)
			}
		}
		return nil
	}))
	if after := mask(); after != before {
		t.Errorf("the mask was %v, and is %v", before, after)
	}
}
