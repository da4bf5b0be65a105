package sim

import (
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// side is the application at one end of a session.
type side struct {
	s    *session
	host *Host
	peer *side
	name string

	qp    *provider.QP
	cq    *provider.CQ
	ctr   *provider.Connector
	pool  *pool // source of its receives; nil if it posts them itself
	shape shape
	store       // sources and sinks
	in    area  // target of the peer's Writes
	book  area  // source of the peer's Reads; it never changes
	lease lease // memory that the peer may access through a window

	model         inboxModel // expected contents of the peer's in after our Writes
	leased        inboxModel // the same for the peer's lease
	free          []int      // slots for requests
	rfree         []int      // slots for receives, separate so that requests waiting for receives cannot take them
	todo          int        // requests still to post
	written       int        // successful Writes into in
	leasedWritten int        // bytes of Writes into the lease
	late          bool       // often posts receives late
	fenced        bool       // the next request must have a fence
	deferred      bool       // the last request promised another one
	ready         bool       // connected
	ended         bool       // results may be CANCELED from now on
	dead          bool       // its host has restarted
	closed        bool       // connector and queue pair are closed
	armed         bool       // a notification is pending
	lookAt        clock.Time // when the application looks next; zero if it waits for a notification

	posted   []request // initiator requests without a result, oldest first
	receives []receive // receives without a result, oldest first
	sent     []message // our Sends that the peer has not received, oldest first
	context  uint64
	finishes int // pending Disconnect
	depth    struct{ initiator, receive int }
	done     struct{ requests, receives uint64 }
	want     [2]uint32 // read limits to request
}

// request is a posted initiator request and its expected effect.
type request struct {
	context uint64
	kind    provider.RequestKind
	silent  bool
	slot    int // none for Bind and Invalidate
	sges    []provider.SGE
	length  int
	expect  []byte      // bytes that a Read must return
	uses    grant       // memory of the peer that it uses
	off     int         // of a Write: target offset
	model   *inboxModel // of a Write: model of the target
	at      clock.Time
}

type receive struct {
	context uint64
	slot    int
	sges    []provider.SGE
}

type message struct {
	body      []byte
	writes    int // Writes posted before it, which must be in place when it arrives
	flags     provider.PostFlags
	immediate uint32
	token     provider.Token // token that it invalidates
}

// fail records a failure, unless the host is hostile: failures of its own requests do not count.
func (a *side) fail(format string, args ...any) {
	if a.host.forger == nil {
		a.s.net.Fail(a.name+": "+format, args...)
	}
}

// trusts reports whether data from the peer must be correct, and not only harmless.
func (a *side) trusts() bool { return a.peer.host.forger == nil }

// setUp makes the side's memory and queues.
func (a *side) setUp(small bool) {
	a.rng = a.s.rng
	a.shape = drawShape(a.rng, small)
	a.depth.initiator, a.depth.receive = 1+a.rng.IntN(40), 1+a.rng.IntN(12)
	results := a.depth.initiator + a.depth.receive
	cfg := provider.QPConfig{
		Context: uint64(len(a.name)), ReceiveDepth: a.depth.receive, InitiatorDepth: a.depth.initiator,
		MaxReceiveSGE: 4, MaxInitiatorSGE: 4, InlineSize: 300,
	}
	if a.rng.IntN(4) == 0 {
		a.pool = a.host.sharedPool()
		a.shape.most = min(a.shape.most, poolMost)
		results += poolDepth
		cfg.Shared, cfg.ReceiveDepth = a.pool.queue, 0
	}
	a.store = a.host.newStore(a.rng, a.shape.slots, a.shape.slotLen)
	a.in = a.host.newArea(a.shape.inbox, provider.RightRemoteRead|provider.RightRemoteWrite)
	a.book = a.host.newArea(a.shape.book, provider.RightRemoteRead)
	a.lease = a.newLease()
	for i, slot := range a.rng.Perm(a.shape.slots) {
		if i%2 == 0 {
			a.free = append(a.free, slot)
		} else {
			a.rfree = append(a.rfree, slot)
		}
	}
	a.cq = provider.NewCQ(results)
	cfg.ReceiveCQ, cfg.InitiatorCQ = a.cq, a.cq
	a.host.Do(func(e *provider.Engine) {
		a.qp = e.NewQP(cfg)
		a.ctr = e.NewConnector()
	})
}

// look makes the application look within d.
func (a *side) look(d time.Duration) {
	at := a.s.net.now.Add(d)
	if a.lookAt != 0 && a.lookAt <= at {
		return
	}
	a.lookAt = at
	a.s.net.After(d, func() {
		if a.lookAt == at {
			a.lookAt = 0
			a.act()
		}
	})
}

// act is one step of the application: take results, post requests, plan the next step.
func (a *side) act() {
	if a.s.over || a.dead {
		return
	}
	a.poll()
	if a.ready && !a.ended {
		for n := a.rng.IntN(12); (n > 0 || a.deferred) && a.post(); n-- {
		}
	}
	if !a.late || a.rng.IntN(4) == 0 || !a.ready {
		for range 1 + a.rng.IntN(6) {
			if !a.postReceive() {
				break
			}
		}
	}
	if a.mayPost() && a.ready || a.mayReceive() {
		pause := between(a.rng, 0, 100*time.Microsecond)
		if a.rng.IntN(30) == 0 {
			pause = between(a.rng, 0, 20*time.Millisecond)
		}
		a.look(pause)
	}
	a.wait()
	a.s.advance()
}

// wait requests a notification of the next result.
func (a *side) wait() {
	if !a.armed {
		a.armed = true
		a.cq.Arm(provider.NotifyAny, func(provider.Outcome) {
			a.armed = false
			a.look(between(a.rng, 0, 20*time.Microsecond))
		})
	}
}

// patience is the virtual time within which every request must end, under all network conditions.
const patience = 30 * time.Second

// checkPatience checks from time to time whether a request has waited for too long.
func (a *side) checkPatience() {
	if a.s.over || a.dead {
		return
	}
	if now := a.s.net.now; len(a.posted) > 0 && a.trusts() && now.Sub(a.posted[0].at) > patience {
		a.fail("request %d of kind %d has waited for %v", a.posted[0].context, a.posted[0].kind, now.Sub(a.posted[0].at))
	}
	a.s.net.After(patience/4, a.checkPatience)
}

// String describes the state of the side, for failures.
func (a *side) String() string {
	return fmt.Sprintf("%s on %s: connector %v, queue pair %v; to do %d, posted %d of %d, receives %d of %d, sent %d, slots %d and %d",
		a.name, a.host.name, a.ctr.State(), a.qp.State(), a.todo, len(a.posted), a.depth.initiator, len(a.receives),
		a.depth.receive, len(a.sent), len(a.free), len(a.rfree))
}

// quiet reports whether all requests of the side were posted and completed.
func (a *side) quiet() bool {
	return a.todo == 0 && len(a.posted) == 0 && len(a.peer.sent) == 0
}

// allEnded reports whether no request waits for a result. Silent requests at the end have then succeeded.
func (a *side) allEnded() bool {
	if a.dead {
		return true
	}
	for i := range a.posted {
		if !a.posted[i].silent {
			return false
		}
	}
	return len(a.receives) == 0
}
