package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/congestion"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// Without ACKREQ a receiver acknowledges at once after Config.AckEvery packets, and after Config.AckDelay if fewer arrived
// (PROTOCOL §9.2).
func TestReceiverSpeaksAfterEnoughPackets(t *testing.T) {
	for n, atOnce := range map[int]bool{63: false, 64: true} {
		p := newPair(t, 1408).connect()
		acks := p.eng[1].Stats().AcksOut
		for i := range n {
			f := p.forge(1)
			f.at(wire.RequestSpace, p.conn(1).traffic.received.spaces[wire.RequestSpace].next+space.At(uint32(i), 0))
			f.fields.Number += 1 + uint64(i)
			p.inject(1, f)
		}
		p.eng[1].Run(p.now)
		if spoke := p.eng[1].Stats().AcksOut > acks; spoke != atOnce {
			t.Errorf("%d packets: spoke %v, want %v", n, spoke, atOnce)
		}
		p.eng[1].Run(p.now.Add(ackDelay))
		if p.eng[1].Stats().AcksOut != acks+1 {
			t.Errorf("%d packets: %d acknowledgements", n, p.eng[1].Stats().AcksOut-acks)
		}
	}
}

// If the peer is silent, retransmissions become less frequent, up to a second between two packets.
func TestTimeOutsBackOff(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	var at []time.Duration
	begun := p.now
	p.link[1].mangle = func(b []byte) bool {
		if sequenced(b) { // the WRITE, and no PING
			at = append(at, p.now.Sub(begun))
		}
		return false
	}
	p.post(0, p.write(0, 0, 10))
	p.pass(4 * time.Second)
	if len(at) < 5 || len(at) > 20 {
		t.Fatalf("sent %d times: %v", len(at), at)
	}
	for i := 3; i < len(at); i++ { // the probe before the first time-out has a time of its own
		before, gap := at[i-1]-at[i-2], at[i]-at[i-1]
		if gap < min(2*before, recovery.MaxRTO)-time.Millisecond {
			t.Errorf("retransmitted %v after a gap of %v", gap, before)
		}
	}
}

// If packets were really lost, the time-out is not spurious: the window stays as small as the loss made it.
func TestTimeOutThatWasOne(t *testing.T) {
	p := newPair(t, 1408).connect().warmedUp()
	p.link[1].mangle = func([]byte) bool { return false }
	p.post(0, p.write(0, 0, 10*1344))
	p.runUntilIdle()
	for p.eng[0].Stats().Timeouts == 0 {
		p.pass(time.Millisecond)
	}
	p.link[1].mangle = nil
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess)
	if s := p.eng[0].Stats(); s.SpuriousTimeouts != 0 {
		t.Errorf("%d of %d time-outs count as spurious", s.SpuriousTimeouts, s.Timeouts)
	}
}

// Each size is probed three times, and then counts as too large for the path.
func TestSizesAreProbedThreeTimes(t *testing.T) {
	p := newPair(t, 8972).connect()
	probes := map[int]int{}
	p.link[1].router = func(tx *TxPacket) (ce, ok bool) {
		if ok = tx.Len <= wire.MinPacket; !ok {
			probes[tx.Len]++
		}
		return false, ok
	}
	for range 60 {
		p.transfer(10000)
		p.pass(time.Second)
	}
	if len(probes) < 3 {
		t.Errorf("sizes %v", probes)
	}
	for size, n := range probes {
		if n != congestion.MaxProbes {
			t.Errorf("%d bytes were probed %d times", size, n)
		}
	}
}

// The number of calls that packets without a connection cause in other engines is bounded.
func TestCallsForAnotherEngineAreBounded(t *testing.T) {
	e := newPair(t, 1408).eng[0]
	ran := 0
	for i := range inboxCalls + 10 {
		if ok := e.inbox.ask(func(*Engine) { ran++ }); ok != (i < inboxCalls) {
			t.Fatalf("call %d was taken: %v", i, ok)
		}
	}
	e.Run(e.now)
	if ran != inboxCalls || !e.inbox.ask(func(*Engine) {}) {
		t.Errorf("%d calls ran", ran)
	}
}

// A connection moves to another engine after 32 packets in a row arrived there. After each move it takes twice as many.
func TestEachMoveTakesTwiceAsManyPackets(t *testing.T) {
	p := newQueuesPair(t, 1408, 2)
	p.landOn(0, always(0))
	p.landOn(1, always(0))
	p.connect()
	for moves := range 3 {
		from := p.homeOf(1)
		p.landOn(1, always(1-from))
		packets := 0
		for ; p.homeOf(1) == from && packets < 1000; packets++ {
			f := p.forge(1)
			to := p.queue(1, 1-from)
			b := f.bytes()
			tx := &TxPacket{N: 1, Len: len(b)}
			tx.Frags[0].Data = b
			to.deliver(tx, f.from, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort})
			for range 4 {
				p.now += 1000
				for _, e := range append([]*Engine{p.eng[1]}, p.more[1]...) {
					e.Run(p.now)
				}
			}
		}
		if want := followAfter << moves; packets != want {
			t.Errorf("move %d after %d packets, want %d", moves+1, packets, want)
		}
	}
}
