package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Connections that end, or lose receives, while a SEND waits for a receive or fills one.

// If a connection ends, or its peer is silent, the receive promised to it goes to the next connection.
func TestPromisedReceiveIsHandedOn(t *testing.T) {
	for name, end := range map[string]func(p *commons){
		"released": func(p *commons) { p.qps[1][0].Release() },
		"flushed":  func(p *commons) { p.qps[1][0].Flush() },
		"disconnected": func(p *commons) {
			p.must(p.ctrs[1][0].Disconnect(func(Outcome) {}))
		},
		"silent": func(p *commons) {
			dead := p.qps[1][0].conn.identity.id
			p.link[1].mangle = func(b []byte) bool {
				h, _ := wire.ParseBaseHeader(b)
				return h.ConnID() != dead
			}
			p.pass(3 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCommons(t, 2, 8)
			p.say(0, 1, 10)
			p.runUntilIdle()
			p.say(1, 2, 10)
			p.runUntilIdle()
			p.offer(1)
			if !p.srq.hasPromised(p.qps[1][0]) {
				t.Fatal("not promised to the first in line")
			}
			end(p)
			p.runUntilIdle()
			p.heard(2)
			p.link[1].mangle = nil
			p.offer(1)
			p.pass(5 * time.Second)
			if name == "silent" {
				p.heard(1)
			} else if p.srq.Posted() != 1 {
				t.Errorf("%d receives are left", p.srq.Posted())
			}
		})
	}
}

func TestPeerDiesWhileASendWaits(t *testing.T) {
	p := newCommons(t, 2, 8)
	p.say(0, 1, 10)
	p.say(0, 2, 10)
	p.pass(30 * time.Second)
	p.link[0].mangle = func([]byte) bool { return false }
	p.link[1].mangle = p.link[0].mangle
	p.pass(10 * time.Second)
	p.outcomes(0, OutcomeIOTimeout, OutcomeCanceled)
	p.pass(20 * time.Second)
	if p.qps[1][0].State() != QPError {
		t.Errorf("the receiver's queue pair is %v", p.qps[1][0].State())
	}
	p.offer(1)
	if p.srq.first != nil || p.srq.promised != 0 {
		t.Error("a dead connection is still in line")
	}
}

// Receives of a shared queue are not flushed with a queue pair, except one that a message has begun to fill (ND specification
// 11.4).
func TestQueuePairEndsInTheMiddleOfAMessage(t *testing.T) {
	for name, end := range map[string]func(p *commons){
		"released": func(p *commons) { p.qp[1].Release() },
		"flushed":  func(p *commons) { p.qp[1].Flush() },
		"closed":   func(p *commons) { p.ctr[1].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newCommons(t, 2, 8)
			p.offer(3)
			p.use(0)
			p.link[1].mangle = func(b []byte) bool { // only the first packet arrives
				return !sequenced(b) || opcode(b) == wire.OpSend
			}
			p.say(0, 1, 5000)
			p.runUntilIdle()
			end(p)
			p.runUntilIdle()
			r := p.outcomes(1, OutcomeCanceled)[0]
			if r.Kind != KindReceive || r.QPContext != 0 || r.RequestContext != 0 || p.srq.Posted() != 2 {
				t.Errorf("%+v, %d left", r, p.srq.Posted())
			}
			p.link[1].mangle = nil
			p.say(1, 2, 5000)
			p.runUntilIdle()
			p.heard(2)
		})
	}
}

// A receive that is too small ends its connection. Other connections of the shared queue continue (ND specification 11.4).
func TestSharedReceiveTooSmall(t *testing.T) {
	p := newCommons(t, 2, 8)
	_, o := p.srq.Post(9, p.sge(1, 0, 5), 5)
	p.must(o)
	p.offer(1)
	p.runUntilIdle()
	p.say(0, 1, 6)
	p.runUntilIdle()
	p.outcomes(1, OutcomeBufferOverflow)
	p.outcomes(0, OutcomeRemoteError)
	p.say(1, 2, 6)
	p.runUntilIdle()
	p.heard(2)
	p.outcomes(0, OutcomeSuccess)
}

// The handshake announces receives that the application flushes before the handshake ends. SENDs that rely on them wait like any
// SEND without a receive (ND specification 8.5, 11.3).
func TestFlushWhileAttachedAfterTheLimitWasTold(t *testing.T) {
	for name, posted := range map[string]int{"nothing posted": 0, "posted in time": 2} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408)
			p.receive(1, 0, 100)
			p.receive(1, 0, 100)
			p.afterAccept = func() {
				p.qp[1].Flush()
				p.runUntilIdle()
				p.outcomes(1, OutcomeCanceled, OutcomeCanceled)
			}
			p.connect()
			p.post(0, p.send(0, 10))
			p.post(0, p.send(0, 20))
			p.pass(time.Second)
			p.outcomes(0)
			for i := range posted {
				p.receive(1, uint32(i)*100, 100)
			}
			p.pass(1100 * time.Millisecond)
			if posted == 0 {
				p.outcomes(0, OutcomeIOTimeout, OutcomeCanceled)
				p.outcomes(1)
				return
			}
			p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
			p.outcomes(1, OutcomeSuccess, OutcomeSuccess)
		})
	}
}
