package ndk

import "testing"

// Post, poll and arm allocate nothing.
func TestFastPathDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	client, server := r.connected(t)
	sgl := []SGE{client.mr.SGE(0, 64)}
	inline := []SGE{{Buffer: make([]byte, 32)}}
	sink := []SGE{server.mr.SGE(0, 64)}
	addr, token := server.mr.Address(), server.mr.RemoteToken()
	var res [8]ResultEx
	var plain [8]Result
	// Both queues are polled alternately. An engine whose queue is not polled would run only when the scheduler takes the only
	// processor away from the test.
	round := func() {
		server.qp.Receive(1, sink)
		client.qp.Write(2, sgl, addr, token, 0)
		client.qp.Send(3, inline, OpInline)
		for sent, received := 0, 0; sent < 2 || received < 1; {
			client.cq.Arm(NotifyErrors)
			sent += client.cq.GetResultsEx(res[:])
			received += server.cq.GetResults(plain[:])
		}
	}
	for range 1000 { // buffers grow to their size once
		round()
	}
	if n := testing.AllocsPerRun(2000, round); n != 0 && !raceEnabled {
		t.Errorf("%v allocations for a Receive, a Write, a Send and their results", n)
	}
}
