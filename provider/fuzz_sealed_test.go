package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/wire"
)

// FuzzSealedConversation attacks an encrypted connection from the first packet of its TLS handshake on. Its input is a sequence of losses,
// waits, results of handshakes, calls of the applications, and packets: replayed, changed, or made by somebody with the keys. For every
// input the engine must not panic and must release everything, and another connection must work. If nobody had the keys or made
// checksums, the handshake must end and the connection must work.

// secretConversation is the state of one run.
type secretConversation struct {
	conversation
	late                               []func() // results of handshakes that were not delivered
	sides                              [2]*shakertest.Side
	begun                              time.Duration // the time that passed
	got, connected, accepted, finished promise
	two                                [2]*Connector // of the attacked connection
	stage                              int
}

func FuzzSealedConversation(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x02\x00\x01\x00\x02\x00\x02\x00\x01\x00\x02\x00\x01\x00\x05"))             // a handshake, packet by packet
	f.Add([]byte("\x02\x00\x86\x01\x10abcdefghijklmnop\x06\x02\x10abcdefghijklmnop\x00\x18")) // forged fragments
	whole := strings.Repeat("\x01\x00\x00\x14", 8)
	f.Add([]byte(whole + "\x01\x00\x40\x00\x14\x86\x01\x18\x02\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00ijklmnop\x01\x02\x20")) // forged segments, with the keys
	f.Add([]byte(whole[:12] + "\x86\x01\x20abcdefghijklmnop0123456789012345\x86\x0b\x20abcdefghijklmnop0123456789012345" + whole))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 512 {
			return
		}
		c := &secretConversation{conversation: conversation{world: newWorld(newLanes(), 256, Config{HeldBytes: 256 << 10}), t: t, in: in}}
		c.sent = func(f flight) bool {
			if c.record && len(c.log) < 64 && !slices.Contains(c.spared[:], f.id()) {
				c.log = append(c.log, f)
			}
			return true
		}
		honest := c.pairOfQPs()
		others, ok := c.connect(honest)
		if !ok {
			t.Fatal("no connection")
		}
		c.record, c.spared = true, [2]uint64{honest[0].conn.identity.id, honest[1].conn.identity.id}
		c.beginShaking()
		for len(c.in) > 0 {
			c.secretStep()
		}
		c.record = false
		c.settle()
		c.finish(c.two, others, honest)
		for i, s := range c.sides {
			if begun, closed := s.Counts(); begun != closed {
				t.Fatalf("side %d closed %d of %d handshakes", i, closed, begun)
			}
		}
	})
}

// beginShaking begins the attacked connection.
func (c *secretConversation) beginShaking() {
	for i := range c.sides {
		c.sides[i] = shakertest.Fixed(i == 0, shakertest.Plan{Hello: 1500, Rest: 3000})
		c.sides[i].Later = func(f func()) { c.late = append(c.late, f) }
		c.two[i] = c.eng[i].NewConnector()
	}
	if c.l.UseTLS(c.sides[1], false) != OutcomeSuccess { // a listener that listens takes none
		c.l.shaker = c.sides[1]
	}
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	if c.two[0].UseTLS(c.sides[0]) != OutcomeSuccess || c.l.GetRequest(c.two[1], c.got.finish) != OutcomeSuccess ||
		c.two[0].connect(c.qp[0], wire.Endpoint{IP: pairIP[0]}, at, ConnectParams{Inbound: 4, Outbound: 4}, c.connected.finish) != OutcomeSuccess {
		c.t.Fatal("no attempt")
	}
	c.turn()
}

// compute delivers a result of a handshake.
func (c *secretConversation) compute(i int) {
	if len(c.late) > 0 {
		i %= len(c.late)
		f := c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		f()
		c.turn()
	}
}

// proceed makes the next call of the applications, if the last one succeeded. It reports whether the connection is established.
func (c *secretConversation) proceed() bool {
	success := func(p *promise) bool { return p.times == 1 && p.outcome == OutcomeSuccess }
	params := ConnectParams{Inbound: 4, Outbound: 4}
	switch {
	case c.stage == 0 && success(&c.got):
		_ = c.two[1].Accept(c.qp[1], params, c.accepted.finish)
		c.stage++
	case c.stage == 1 && success(&c.connected):
		_ = c.two[0].CompleteConnect(c.finished.finish)
		c.stage++
	case c.stage == 2 && success(&c.accepted) && success(&c.finished) && c.qp[0].conn != nil && c.qp[1].conn != nil:
		c.ids = [2]uint64{c.qp[0].conn.identity.id, c.qp[1].conn.identity.id}
		c.stage++
	}
	return c.stage == 3
}

// shakingOn returns the connection of a side that has a handshake, or nil.
func (c *secretConversation) shakingOn(side int) (found *conn) {
	for x := range c.eng[side].group.conns.all {
		if x.end.shaking != nil && (found == nil || x.identity.id < found.identity.id) {
			found = x
		}
	}
	return found
}

func (c *secretConversation) secretStep() {
	if established := c.proceed(); established && c.in[0]&7 != 0 && c.in[0]&7 != 4 {
		c.step()
		return
	}
	op := c.byte()
	switch op & 7 {
	case 0:
		d := time.Duration(1) << min(c.byte(), 28)
		c.begun += d
		c.pass(d, func() {})
	case 1:
		c.compute(int(c.byte()))
	case 2:
		if len(c.air) > 0 {
			c.deliver(int(c.byte()) % len(c.air))
		}
	case 3:
		if len(c.log) > 0 {
			c.replay()
		}
	case 4:
		c.excuse = c.excuse || c.stage == 3
		c.air = slices.DeleteFunc(c.air, func(f flight) bool { return !slices.Contains(c.spared[:], f.id()) })
	case 6:
		if victim := c.shakingOn(int(op >> 7)); victim != nil {
			c.interfere(int(op>>7), victim)
		}
	default:
		c.turn()
	}
}

// interfere injects a packet for a handshake: a part of its bytes, or anything, in plain or with a key that the victim has.
func (c *secretConversation) interfere(side int, victim *conn) {
	how, n := c.byte(), int(c.byte())
	n = min(n, len(c.in))
	body := c.in[:n]
	c.in = c.in[n:]
	sh, opcode := victim.end.shaking, wire.CtlSHAKE
	if how&4 != 0 {
		opcode, body = wire.CtlREJ+wire.Opcode(how>>4&3), slices.Clone(body)
	} else {
		m := wire.Shake{
			ConnID: victim.identity.peerID, Nonce: victim.identity.nonce, UDPPort: wire.DefaultPort, Level: wire.ShakeInitial,
			Offset: uint16(how>>3) * 16, Total: uint16(n) + uint16(how>>3)*16, Bytes: body,
		}
		if how&1 != 0 {
			m.Level = wire.ShakeHandshake
		}
		body = m.Append(nil)
	}
	message := make([]byte, wire.ControlHeaderLen)
	wire.PutControl(message, opcode, 0, len(body))
	body = append(message, body...)
	fields := &wire.BaseFields{ConnID: victim.identity.id, Number: heard(victim) + 1}
	f := flight{side, victim.identity.remote, wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort}, nil}
	switch {
	case how&1 == 0:
		f.data = make([]byte, wire.BaseHeaderLen)
		wire.PutBaseHeader(f.data, fields)
		f.data = append(f.data, body...)
		c.shoot(f, true)
	case how&2 == 0 && sh.early != nil:
		f.data = sealedFor(c.t, sh.early.In.Secret(), 0, fields, body)
	case how&2 != 0 && sh.next[1].Suite() != 0:
		f.data = sealedFor(c.t, &sh.next[1], 1, fields, body)
	}
	if how&1 != 0 && f.data != nil {
		c.forged = true
		c.shoot(f, false)
	}
}

// settle lets the handshake end, and fails the test if it does not.
func (c *secretConversation) settle() {
	for i := range c.sides {
		c.sides[i].Later = nil
	}
	c.pass(4*time.Second, func() {
		c.compute(0)
		c.proceed()
	})
	if !c.proceed() {
		if !c.forged && c.begun < 3*time.Second {
			c.t.Fatalf("the handshake did not end: request %v, answer %v, stage %d", c.got, c.connected, c.stage)
		}
		c.forged = true // there is no connection to check
	}
	c.l.shaker = nil
}
