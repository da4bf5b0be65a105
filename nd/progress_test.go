package nd

import (
	"bytes"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program that neither polls nor waits still serves its peer's Reads and Writes (automatic progress).
func TestServesWithoutPolling(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	const size = 100 << 10
	client, server := r.connect(t, 2*size)
	for i := range size {
		client.mr.Bytes()[i] = byte(i * 13)
	}
	for i := range uint64(20) {
		must(t, client.qp.Write(i, []SGE{client.mr.SGE(0, size)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, i, RequestWrite, StatusSuccess)
		must(t, client.qp.Read(i, []SGE{client.mr.SGE(size, size)}, server.mr.Address(), server.mr.RemoteToken(), 0))
		client.wantResult(t, i, RequestRead, StatusSuccess)
		if !bytes.Equal(client.mr.Bytes()[size:], client.mr.Bytes()[:size]) {
			t.Fatal("the bytes read differ from those written")
		}
		clear(client.mr.Bytes()[size:])
		client.mr.Bytes()[i]++
	}
}

// Both sides sleep in Notify whenever there is no result.
func TestEventMode(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	const rounds = 300
	echoed := start(func() error {
		var res [4]Result
		for done := 0; done < rounds; {
			if err := server.cq.Notify(t.Context(), NotifyAny); err != nil {
				return err
			}
			for _, r := range res[:server.cq.GetResults(res[:])] {
				if r.Type != RequestReceive {
					continue
				}
				done++
				if err := server.qp.Send(0, []SGE{server.mr.SGE(0, 8)}, OpSilentSuccess); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for range rounds {
		must(t, server.qp.Receive(1, []SGE{server.mr.SGE(0, 8)}))
		must(t, client.qp.Receive(2, []SGE{client.mr.SGE(8, 8)}))
		must(t, client.qp.Send(3, []SGE{client.mr.SGE(0, 8)}, OpSilentSuccess))
		client.wantResult(t, 2, RequestReceive, StatusSuccess)
	}
	must(t, finish(t, "echo", echoed))
}

// processorTime returns the processor time of this process, in user and kernel mode.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// idleCost returns the processor time of this process in an idle span. It takes the cheapest of up to three spans, because a
// hypervisor may deschedule the virtual machine and charge that time to the process. A busy loop costs the same in each span.
func idleCost(t *testing.T, span, limit time.Duration) time.Duration {
	t.Helper()
	debug.FreeOSMemory() // garbage of earlier tests costs nothing meanwhile
	least := span
	for try := 0; try < 3 && least > limit; try++ {
		before := processorTime(t)
		<-time.After(span)
		used := processorTime(t) - before
		t.Logf("%v in %v", used, span)
		least = min(least, used)
	}
	return least
}

// Two idle connected adapters together use less than 2 % of a core. It runs alone.
func TestIdleCost(t *testing.T) {
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 4096)
	waiting := []<-chan error{
		start(func() error { return client.cq.Notify(t.Context(), NotifyAny) }),
		start(func() error { return server.ctr.NotifyDisconnect(t.Context()) }),
	}
	eventually(t, "waits", func() bool { return client.cq.cq.Waiting() == 1 && server.ctr.notifications() == 1 })
	const span = time.Second
	if used := idleCost(t, span, span/50); used > span/50 {
		t.Errorf("two idle adapters used %v of a core in %v, want less than 2 %%", used, span)
	}
	must(t, client.ctr.Close())
	must(t, finish(t, "notify disconnect", waiting[1]))
	client.cq.CancelOverlappedRequests()
	wantStatus(t, "notify", finish(t, "notify", waiting[0]), ErrCanceled)
}

// After an application has polled and stopped, it costs no processor time, and its peer is served within milliseconds again.
func TestIdleAfterPolling(t *testing.T) {
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 4096)
	var res [1]Result
	for range 10000 {
		client.cq.GetResults(res[:])
		server.cq.GetResults(res[:])
	}
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, 8)}, server.mr.Address(), server.mr.RemoteToken(), 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	const span = 500 * time.Millisecond
	if used := idleCost(t, span, span/20); used > span/20 {
		t.Errorf("used %v of a core in %v after polling had stopped, want less than 5 %%", used, span)
	}
}

// No operation allocates while both sides poll.
func TestZeroAllocations(t *testing.T) {
	r := newRig(t, 1500, DatapathAuto)
	client, server := r.connect(t, 4096)
	addr, token := server.mr.Address(), server.mr.RemoteToken()
	list, sink := []SGE{client.mr.SGE(0, 64)}, []SGE{server.mr.SGE(0, 64)}
	var res [4]Result
	// poll polls results on both sides until there were this many.
	poll := func(want int) {
		for limit := time.Now().Add(patience); want > 0; {
			for _, e := range []*end{client, server} {
				for i := range e.cq.GetResults(res[:]) {
					if res[i].Status != StatusSuccess {
						t.Fatalf("%+v", res[i])
					}
					want--
				}
			}
			if time.Now().After(limit) {
				t.Fatal("no result")
			}
		}
	}
	for _, c := range []struct {
		name    string
		run     func() error
		results int
	}{
		{"send", func() error {
			if err := server.qp.Receive(1, sink); err != nil {
				return err
			}
			return client.qp.Send(2, list, 0)
		}, 2},
		{"inline send", func() error {
			if err := server.qp.Receive(1, sink); err != nil {
				return err
			}
			return client.qp.Send(2, list, OpInline)
		}, 2},
		{"write", func() error { return client.qp.Write(3, list, addr, token, 0) }, 1},
		{"read", func() error { return client.qp.Read(4, list, addr, token, 0) }, 1},
	} {
		operation := func() {
			if err := c.run(); err != nil {
				t.Fatal(err)
			}
			poll(c.results)
		}
		for range 1000 { // buffers grow to their size once
			operation()
		}
		if n := testing.AllocsPerRun(2000, operation); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
	empty := testing.AllocsPerRun(10000, func() { client.cq.GetResults(res[:]) })
	if empty != 0 {
		t.Errorf("polling: %v allocations", empty)
	}
}
