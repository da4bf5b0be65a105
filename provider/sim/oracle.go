package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// patience is the virtual time in which every request must end, whatever the network does within its conditions.
const patience = 30 * time.Second

// inboxModel is what the peer's memory must look like when all our Writes are there, and which Write each byte is from.
type inboxModel struct {
	want   []byte
	stamp  []int // index+1 of the newest Write that covers the byte
	writes []span
}

type span struct{ off, n int }

func newInboxModel(initial []byte) inboxModel {
	return inboxModel{want: append([]byte(nil), initial...), stamp: make([]int, len(initial))}
}

func (m *inboxModel) write(off int, body []byte) {
	m.writes = append(m.writes, span{off, len(body)})
	copy(m.want[off:], body)
	for i := range body {
		m.stamp[off+i] = len(m.writes)
	}
}

// inPlace says whether the last Writes among the first n are in memory, where no later one covers them.
func (m *inboxModel) inPlace(memory []byte, n int) bool {
	for w := max(0, n-4); w < n; w++ {
		s := m.writes[w]
		for i := s.off; i < s.off+s.n; i++ {
			if m.stamp[i] == w+1 && memory[i] != m.want[i] {
				return false
			}
		}
	}
	return true
}

// poll takes results and checks them: each request once, in order, with the right bytes.
func (a *side) poll() {
	var rs [16]provider.Result
	for {
		n := a.cq.Fetch(rs[:])
		for i := range n {
			if rs[i].Kind == provider.KindReceive {
				a.onReceive(&rs[i])
			} else {
				a.onResult(&rs[i])
			}
		}
		if n < len(rs) {
			break
		}
	}
	now := a.s.net.now
	if !a.allEnded() && len(a.posted) > 0 && now.Sub(a.posted[0].at) > patience {
		a.s.net.Fail("%s: %v has waited for %v", a.name, a.posted[0].kind, now.Sub(a.posted[0].at))
	}
}

func (a *side) onResult(r *provider.Result) {
	net := a.s.net
	for len(a.posted) > 0 && a.posted[0].silent && a.posted[0].context != r.RequestContext {
		a.endRequest() // succeeded in silence
	}
	if len(a.posted) == 0 || a.posted[0].context != r.RequestContext || a.posted[0].kind != r.Kind {
		net.Fail("%s: result %+v, but the oldest request is %+v", a.name, *r, a.posted)
		return
	}
	switch {
	case r.Outcome == provider.OutcomeSuccess && a.posted[0].silent:
		net.Fail("%s: silent request %d reported success", a.name, r.RequestContext)
	case r.Outcome != provider.OutcomeSuccess && !a.mayEndWith(r.Outcome):
		net.Fail("%s: request %d of kind %d ended with %v", a.name, r.RequestContext, r.Kind, r.Outcome)
	}
	if r.Outcome == provider.OutcomeSuccess {
		a.endRequest()
	} else {
		a.free = append(a.free, a.posted[0].slot)
		a.posted = a.posted[1:]
	}
}

// mayEndWith says whether a request may fail with o: not before the session is over. After the peer disconnected, a Send may
// also wait in vain for a receive, until we disconnect too.
func (a *side) mayEndWith(o provider.Outcome) bool {
	return a.ended && (o == provider.OutcomeCanceled || o == provider.OutcomeIOTimeout && !a.s.graceful)
}

// endRequest checks the oldest request after its success and takes it off the list.
func (a *side) endRequest() {
	q := &a.posted[0]
	if q.expect != nil && !bytes.Equal(a.gathered(q.sges), q.expect) {
		a.s.net.Fail("%s: Read %d brought the wrong bytes", a.name, q.context)
	}
	a.free = append(a.free, q.slot)
	a.posted = a.posted[1:]
	a.done.requests++
}

func (a *side) onReceive(r *provider.Result) {
	net := a.s.net
	if len(a.receives) == 0 || a.receives[0].context != r.RequestContext {
		net.Fail("%s: receive %d ended out of order", a.name, r.RequestContext)
		return
	}
	q := a.receives[0]
	a.receives = a.receives[1:]
	a.rfree = append(a.rfree, q.slot)
	if r.Outcome != provider.OutcomeSuccess {
		if !a.mayEndWith(r.Outcome) {
			net.Fail("%s: receive %d ended with %v", a.name, r.RequestContext, r.Outcome)
		}
		return
	}
	a.done.receives++
	if len(a.peer.sent) == 0 {
		net.Fail("%s: received a message that was never sent", a.name)
		return
	}
	m := a.peer.sent[0]
	a.peer.sent = a.peer.sent[1:]
	if got := a.gathered(q.sges); int(r.Bytes) != len(m.body) || !bytes.Equal(got[:len(m.body)], m.body) {
		net.Fail("%s: receive %d took %d bytes, wrong or not %d", a.name, r.RequestContext, r.Bytes, len(m.body))
	}
	if !a.peer.model.inPlace(a.in.bytes(), m.writes) {
		net.Fail("%s: receive %d came before the Writes in front of it", a.name, r.RequestContext)
	}
}

// String tells where the side stands, for failures.
func (a *side) String() string {
	return fmt.Sprintf("%s on %s: connector %v, queue pair %v; to do %d, posted %d of %d, receives %d of %d, sent %d, slots %d and %d",
		a.name, a.host.name, a.ctr.State(), a.qp.State(), a.todo, len(a.posted), a.depth.initiator, len(a.receives),
		a.depth.receive, len(a.sent), len(a.free), len(a.rfree))
}

// quiet says that the side has done all it wanted.
func (a *side) quiet() bool {
	return a.todo == 0 && len(a.posted) == 0 && len(a.peer.sent) == 0
}

// allEnded says that nothing waits for a result. Silent requests at the end succeeded if they leave none.
func (a *side) allEnded() bool {
	for i := range a.posted {
		if !a.posted[i].silent {
			return false
		}
	}
	return len(a.receives) == 0
}

// finalCheck compares memory with the models once everything has ended.
func (a *side) finalCheck(graceful bool) {
	net := a.s.net
	if graceful && !bytes.Equal(a.in.bytes(), a.peer.model.want) {
		net.Fail("%s: memory is not what the peer's Writes make of it", a.name)
	}
	for name, m := range map[string]area{"slots": a.mem, "inbox": a.in, "book": a.book} {
		if !m.guarded() {
			net.Fail("%s: something was written in front of or behind %s", a.name, name)
		}
	}
	if !a.allEnded() {
		net.Fail("%s: %d receives and %d requests never ended", a.name, len(a.receives), len(a.posted))
	}
}
