package ndk

import "testing"

// Posting, polling and arming allocate nothing.
func TestFastPathDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	client, server := r.connected(t)
	sgl := []SGE{client.mr.SGE(0, 64)}
	inline := []SGE{{Buffer: make([]byte, 32)}}
	sink := []SGE{server.mr.SGE(0, 64)}
	addr, token := server.mr.Address(), server.mr.RemoteToken()
	var res [8]ResultEx
	var plain [8]Result
	drain := func(n int) {
		for n > 0 {
			client.cq.Arm(NotifyErrors)
			n -= client.cq.GetResultsEx(res[:])
		}
	}
	round := func() {
		server.qp.Receive(1, sink)
		client.qp.Write(2, sgl, addr, token, 0)
		client.qp.Send(3, inline, OpInline)
		drain(2)
		for server.cq.GetResults(plain[:]) == 0 {
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n > 0.5 && !raceEnabled {
		t.Errorf("%v allocations for a Receive, a Write, a Send and their results", n)
	}
}
