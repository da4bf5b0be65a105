package sim

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// This file ends grants of memory while requests use them, so that packets of these requests are in flight or wait to be
// retransmitted.

// grant is memory of one side that requests use.
type grant uint8

const (
	grantNone  grant = iota
	grantInbox       // the peer writes and reads it
	grantBook        // the peer reads it
	grantLease       // the peer writes and reads it through a window
	grantLocal       // requests and receives of the side itself use it
)

// revocation is how a grant ends.
type revocation uint8

const (
	invalidateWindow revocation = iota // by a request of the owner
	releaseWindow
	closeRegion // with the bound window
	deregisterInbox
	deregisterBook
	deregisterLocal
	numRevocations
)

// grants are the grants that each revocation ends.
var grants = [numRevocations]grant{grantLease, grantLease, grantLease, grantInbox, grantBook, grantLocal}

// revoked is a session's record of a grant that its owner ended. A session has at most one.
type revoked struct {
	by       *side
	how      revocation
	byEngine [2]bool // requests of the owner, and of the peer, failed before another event ended the session
	refused  int     // requests of the peer that ended with an access violation
}

// drawGrants draws whether grants end. It draws from a generator of its own, so that it does not change what a seed draws otherwise.
func (c *Conditions) drawGrants(rng *rand.Rand) {
	c.Rates[Revoke] = rng.IntN(2) * (1 + rng.IntN(worst[Revoke]))
}

// revokeGap is the longest time between two checks whether a grant is in use. After revokeLooks checks it ends anyway.
const (
	revokeGap   = 100 * time.Microsecond
	revokeLooks = 50
)

// planRevocation makes a side end a grant, in some established sessions.
func (s *session) planRevocation() {
	rng := s.net.grants
	if !s.a.ready || !s.b.ready || !s.sound() || !chance(rng, s.net.Rates[Revoke]) {
		return
	}
	owner, how := s.a, revocation(rng.IntN(int(numRevocations)))
	if rng.IntN(2) == 0 {
		owner = s.b
	}
	s.net.After(between(rng, 0, 5*time.Millisecond), func() { owner.revoke(how, revokeLooks) })
}

// uses returns the number of requests that use a grant of the side.
func (a *side) uses(g grant) (n int) {
	by := a.peer.posted
	if g == grantLocal {
		by = a.posted
	}
	for i := range by {
		if by[i].uses == g || g == grantLocal && len(by[i].sges) > 0 {
			n++
		}
	}
	return n
}

// revoke ends a grant as soon as it is in use.
func (a *side) revoke(how revocation, looks int) {
	s, g := a.s, grants[how]
	if !s.sound() || s.over || a.ended || a.dead || a.peer.dead {
		return
	}
	if a.uses(g) == 0 && looks > 0 || g == grantLease && a.lease.state != leaseBound || how == invalidateWindow && len(a.posted) == a.depth.initiator {
		if looks > 0 {
			s.net.After(between(s.net.grants, 0, revokeGap), func() { a.revoke(how, looks-1) })
		}
		return
	}
	s.revoked = &revoked{by: a, how: how}
	s.net.trace.note(s.net.now, Revoke.String(), a.name)
	if a.uses(g) > 0 {
		s.net.Happened[Revoke]++
	}
	switch how {
	case invalidateWindow:
		a.todo++ // not one of the side's own requests
		a.invalidateLease(0)
	case releaseWindow:
		a.end(&a.lease.area, func(m *provider.Memory) { m.ReleaseWindow(a.lease.window) })
	case closeRegion:
		a.end(&a.lease.area, func(m *provider.Memory) { m.Release(a.lease.area.region) })
		a.lease.area.gone = true
	case deregisterInbox:
		a.deregister(&a.in)
	case deregisterBook:
		a.deregister(&a.book)
	default:
		a.todo = 0
		s.abandonLater() // the last request may succeed silently
		a.deregister(&a.mem)
	}
}

// end ends a grant of an area at once. Nothing may be placed into the area afterwards.
func (a *side) end(of *area, how func(*provider.Memory)) {
	if of == &a.lease.area {
		a.lease.state = leaseEnded
	}
	a.host.Do(func(*provider.Engine) { how(a.host.Memory) })
	of.seal()
}

func (a *side) deregister(of *area) {
	of.gone = true
	a.end(of, func(m *provider.Memory) {
		if o := m.Deregister(of.region); o != provider.OutcomeSuccess {
			a.s.net.Fail("%s: deregistering: %v", a.name, o)
		}
	})
}

// seal records the contents of the area, which must not change afterwards.
func (a *area) seal() { a.sealed = append([]byte(nil), a.bytes()...) }

// kept reports whether a sealed area is unchanged.
func (a *area) kept() bool { return a.sealed == nil || bytes.Equal(a.sealed, a.bytes()) }

// grant returns the grant that ended.
func (r *revoked) grant() grant { return grants[r.how] }

// allows reports whether a request, or a receive if q is nil, may end with o because a grant ended. Requests that use the grant end
// with a violation, all others with CANCELED.
func (r *revoked) allows(a *side, q *request, o provider.Outcome) bool {
	switch {
	case r == nil:
		return false
	case o == provider.OutcomeCanceled:
		return true
	case r.grant() == grantLocal && a == r.by:
		return o == provider.OutcomeAccessViolation && (q == nil || len(q.sges) > 0)
	case r.grant() == grantLocal:
		return (o == provider.OutcomeRemoteError || o == provider.OutcomeIOTimeout) && q != nil && q.kind == provider.KindSend // the peer's receive is gone, and no other will be posted
	case a == r.by || q == nil || q.uses != r.grant():
		return false
	case q.kind == provider.KindRead:
		return o == provider.OutcomeReadRefused
	default:
		return o == provider.OutcomeAccessViolation
	}
}

// failed reports whether the connection ended because of the revocation.
func (r *revoked) failed() bool { return r != nil && (r.byEngine[0] || r.byEngine[1]) }

// noteFailure records that a request or a receive of a side failed. It returns true if the session still goes on, because the owner
// waits until its peer is notified, too.
func (r *revoked) noteFailure(a *side, o provider.Outcome) (waits bool) {
	if r == nil {
		return false
	}
	if a != r.by && (o == provider.OutcomeAccessViolation || o == provider.OutcomeReadRefused) {
		r.refused++
	}
	if a.ended {
		return false
	}
	if a != r.by {
		r.byEngine[1] = true
		return false
	}
	if !r.byEngine[0] {
		r.byEngine[0], a.todo = true, 0
		a.s.abandonLater()
	}
	return true
}

// checkRevoked checks the results of a session against the grant that ended.
func (a *side) checkRevoked() {
	s := a.s
	if !a.trusts() || s.crashed {
		return
	}
	for _, m := range []*area{&a.lease.area, &a.in, &a.book, &a.mem} {
		if !m.kept() {
			a.fail("memory was written to behind the end of its grant")
		}
	}
	if !a.model.inPlace(a.peer.in.bytes(), a.written) || !a.leased.inPlace(a.peer.lease.area.bytes(), a.leasedWritten) {
		a.fail("a Write succeeded and is not in place")
	}
	if r := s.revoked; r != nil && r.by == a && r.grant() != grantLocal && r.byEngine[1] && r.refused != 1 {
		a.fail("%d requests of the peer ended with an access violation after a grant was revoked", r.refused)
	}
}
