package provider

import "testing"

// A completion queue that overruns loses results. A SEND whose result was lost must not complete with success at the sender: the
// peer gets as many successes as the queue has results. This holds whether the messages arrive in one packet, in one poll or one by
// one, and also if other queue pairs share the queue.
func TestOverrunIsNotTakenForSuccess(t *testing.T) {
	const depth, sends = 4, 12
	for _, c := range []struct {
		name    string
		queues  int
		size    uint32
		between func(p *pair)
	}{
		{name: "one packet", queues: 1, size: 8},
		{name: "one turn", queues: 1, size: 1300},
		{name: "one by one", queues: 1, size: 8, between: (*pair).runUntilIdle},
		{name: "one packet, two engines", queues: 2, size: 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTunedPair(t, 1408, c.queues, Config{})
			small := NewCQ(depth)
			p.qp[1] = p.eng[1].NewQP(QPConfig{ReceiveCQ: small, InitiatorCQ: p.cq[1], ReceiveDepth: 64, InitiatorDepth: 8, MaxReceiveSGE: 1, MaxInitiatorSGE: 1})
			p.connect()
			for i := range uint32(sends) {
				p.receive(1, i*2000, 2000)
			}
			p.runUntilIdle()
			for range sends {
				if p.qp[0].State() == QPReady {
					p.post(0, p.send(0, c.size))
				}
				if c.between != nil {
					c.between(p)
				}
			}
			p.runUntilIdle()
			told := 0
			for _, r := range p.results(0) {
				if r.Outcome == OutcomeSuccess {
					told++
				}
			}
			if there := small.Fetch(make([]Result, 64)); told != depth || there != depth {
				t.Errorf("%d of %d sends succeeded, and there are %d results in a queue of %d", told, sends, there, depth)
			}
			if s := p.ctr[1].State(); s != CtrLost {
				t.Errorf("the connection of the queue that overran is %v", s)
			}
		})
	}
}
