package sim

import (
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// ending is how a pair of connected queue pairs ends.
type ending uint8

const (
	activeFirst ending = iota
	passiveFirst
	bothAtOnce
	activeCloses
	passiveReleases
	activeFlushes // flushes, then disconnects
	passiveCancels
	numEndings
)

// end ends the session. Results may be CANCELED from now on.
func (s *session) end() {
	if s.a.ended || !s.b.ready && !s.a.ready {
		return
	}
	s.graceful = s.bothQuiet() && !s.revoked.failed()
	s.a.ended, s.b.ended = true, true
	s.net.trace.note(s.net.now, "end "+strconv.Itoa(int(s.ending)), s.a.name)
	switch s.ending {
	case activeFirst:
		s.disconnectInTurn(s.a, s.b)
	case passiveFirst:
		s.disconnectInTurn(s.b, s.a)
	case bothAtOnce:
		s.disconnect(s.a)
		s.disconnect(s.b)
	case activeCloses:
		s.a.host.Own(s.a.ctr, func(*provider.Engine) { s.a.ctr.Close() })
	case activeFlushes:
		s.a.host.Own(s.a.qp, func(*provider.Engine) { s.a.qp.Flush() })
		s.a.finishes++
		s.net.After(between(s.rng, 0, time.Millisecond), func() {
			s.a.finishes--
			s.disconnectInTurn(s.a, s.b)
			s.advance()
		})
	case passiveCancels:
		s.disconnect(s.b)
		s.net.After(between(s.rng, 0, 3*time.Second), func() { s.cancel(s.b) })
	default:
		s.b.host.Own(s.b.qp, func(*provider.Engine) { s.b.qp.Release() })
	}
	s.a.look(0)
	s.b.look(0)
}

// disconnectInTurn disconnects y when it learns that x has disconnected.
func (s *session) disconnectInTurn(x, y *side) {
	if x.dead || y.dead || s.given {
		return
	}
	y.host.Own(y.ctr, func(*provider.Engine) {
		heard := func(provider.Outcome) { s.net.After(min(s.think(), 5*time.Second), func() { s.disconnect(y) }) }
		if _, o := y.ctr.NotifyDisconnect(heard); o != provider.OutcomeSuccess && s.graceful && s.sound() {
			s.net.Fail("%s: notify: %v", y.name, o)
		}
	})
	s.disconnect(x)
}

func (s *session) disconnect(x *side) {
	if x.dead || x.closed {
		return
	}
	strict := s.graceful && s.ending != passiveCancels
	x.host.Own(x.ctr, func(*provider.Engine) {
		x.finishes++
		o := x.ctr.Disconnect(func(o provider.Outcome) {
			x.finishes--
			forgotten := (o == provider.OutcomeAborted || o == provider.OutcomeIOTimeout) && x.peer.host.mayForget()
			if strict && s.sound() && o != provider.OutcomeSuccess && !forgotten {
				s.net.Fail("%s: disconnect finished with %v", x.name, o)
			}
			s.net.After(0, s.advance)
		})
		if o != provider.OutcomeSuccess {
			x.finishes--
			if strict && s.sound() {
				s.net.Fail("%s: disconnect: %v", x.name, o)
			}
		}
	})
	s.advance()
}

// mayForget reports whether the host may have freed an ended connection early: the connection moved to the leading engine, whose link gave
// it no path.
func (h *Host) mayForget() bool {
	n := &h.net.Happened
	return len(h.queues) > 1 && n[NoPath]+n[LinkDown]+n[LinkGone] > 0
}

// cancel ends a Disconnect that still waits for the peer's Disconnect.
func (s *session) cancel(x *side) {
	if x.dead || x.closed {
		return
	}
	x.host.Own(x.ctr, func(*provider.Engine) { x.ctr.Cancel() })
	if x.finishes != 0 {
		s.net.Fail("%s: Disconnect was canceled and did not finish", x.name)
	}
}

// abandon ends a session from both sides, whatever is in progress, because a peer is hostile or has lost the connection.
func (s *session) abandon() {
	if s.sound() || s.given || s.over {
		return
	}
	s.given, s.graceful = true, false
	s.a.ended, s.b.ended = true, true
	for _, x := range []*side{s.a, s.b} {
		s.net.After(between(s.rng, 0, time.Millisecond), func() { s.close(x) })
	}
}

// abandonLater calls abandon when both sides have had time to detect the end of the connection.
func (s *session) abandonLater() { s.net.After(patience/2, s.abandon) }

// close releases what a side has, without delay.
func (s *session) close(x *side) {
	if !x.dead && !x.closed && !s.over {
		s.release(x)
		x.look(0)
	}
	s.advance()
}

// forgetPeer ends a session with a restarted host. The peer either ends it, too, or waits until its provider detects the restart.
func (s *session) forgetPeer(x *side) {
	if s.over {
		x.dead = true
		return
	}
	s.crashed, s.graceful, x.dead = true, false, true
	s.a.ended, s.b.ended = true, true
	if x == s.b {
		s.listener = nil
	}
	y := x.peer
	if y.dead {
		s.net.After(0, func() {
			s.abandon()
			s.advance() // needed if the session was already abandoned
		})
		return
	}
	y.look(0)
	if s.rng.IntN(2) == 0 {
		s.net.After(between(s.rng, 0, 2*time.Second), s.abandon)
		return
	}
	s.await(y, s.net.now.Add(noticeTimeout))
}

// noticeTimeout bounds the time until a provider detects that its peer lost a connection: 10 s of silence, an eighth more at the
// passive end, five keep-alives at intervals of a second (PROTOCOL §9.5), and 10 s of a Disconnect that waits for the peer.
const noticeTimeout = 30 * time.Second
