package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// serverOf returns the passive connection whose handshake is in progress.
func (m *shakeMeeting) serverOf() *conn {
	m.tb.Helper()
	for c := range m.eng[1].group.conns.all {
		if c.end.shaking != nil {
			return c
		}
	}
	m.tb.Fatal("the passive end has no handshake")
	return nil
}

// A passive end that gives up tells a client that lost all of the ServerHello, or a part of it, although the client has no keys. It tells
// the client again if the REJ is lost, too (PROTOCOL §10.2).
func TestClientWithoutKeysHearsOfTheEnd(t *testing.T) {
	plan := shakertest.Plan{Hello: 1500, Rest: 1700} // the ServerHello takes two packets
	for name, loses := range map[string]func(m wire.Shake) bool{
		"nothing":         func(wire.Shake) bool { return false },
		"the ServerHello": func(wire.Shake) bool { return true },
		"its second part": func(m wire.Shake) bool { return m.Offset > 0 },
		"its first part":  func(m wire.Shake) bool { return m.Offset == 0 },
	} {
		for _, closes := range []bool{true, false} {
			for _, lost := range []int{0, 2, 5} { // packets after the end
				m := newShakeMeeting(t, plan, plan)
				var late []func()
				m.sides[0].Later = func(f func()) { late = append(late, f) } // the client does not go on if it lost nothing
				ended, after := false, 0
				m.arrivals(0, func(_ []byte, _ wire.BaseHeader, msg wire.Control) bool {
					var s wire.Shake
					if msg.Opcode == wire.CtlSHAKE && wire.ParseShake(msg.Body, &s) == wire.DropNone && loses(s) {
						return false
					}
					if ended {
						after++
					}
					return !ended || after > lost
				})
				m.connect().runUntilIdle()
				late[0]()
				m.pass(lifetime.ThinkTime / 2)
				c := m.serverOf()
				if ended = true; closes {
					m.l.Close()
				} else {
					c.end.shaking.fail(c, errors.New("the plan fails"), 42)
				}
				m.pass(2 * time.Second)
				m.failed(OutcomeRefused)
				if f := m.ctr[0].TLSFailure(); closes != (f == nil) || f != nil && f.Alert != 42 {
					t.Errorf("lost %s, then %d packets, the listener closes %v: failure %v", name, lost, closes, f)
				}
				m.link[0].mangle = nil
				m.over()
			}
		}
	}
}

// A client that showed that it has the keys gets the REJ sealed only: an observer does not read why the attempt ended.
func TestEndIsSealedForAClientWithKeys(t *testing.T) {
	refuses := usual
	refuses.Refuse = 42
	m := newShakeMeeting(t, usual, refuses)
	m.arrivals(0, func(_ []byte, _ wire.BaseHeader, msg wire.Control) bool {
		if msg.Opcode == wire.CtlREJ {
			t.Error("REJ is in plain")
		}
		return true
	})
	m.get().connect().pass(time.Second)
	m.failed(OutcomeRefused)
	m.over()
}
