package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// A busy peer may read the bulk path later than its receive port, and later the busier it is. It reports how long packets waited, and
// the sender keeps its bulk path (PROTOCOL §9.3, §11.1).
func TestBulkOutlastsABusyPeer(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	p.stream(300_000)
	type arrival struct {
		packet   TxPacket
		from, to wire.Endpoint
	}
	var waiting []arrival
	to := p.link[1]
	for _, late := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60} {
		to.router = func(tx *TxPacket) (ce, ok bool) {
			if !tx.Bulk {
				return false, true
			}
			held := *tx
			for i := range held.N {
				held.Frags[i].Data = append([]byte(nil), tx.Frags[i].Data...)
			}
			ends := p.link[0].paths[tx.Path]
			waiting = append(waiting, arrival{held, ends.local, ends.remote})
			return false, false
		}
		p.post(0, p.write(0, 0, 40_000))
		sent := p.now
		for p.now.Sub(sent) < late*time.Millisecond {
			p.turn()
			p.now = p.now.Add(100 * time.Microsecond)
		}
		if len(waiting) == 0 {
			t.Fatal("no packet took the bulk path")
		}
		to.router, to.stamp = nil, sent
		for i := range waiting {
			to.deliver(&waiting[i].packet, waiting[i].from, waiting[i].to)
		}
		waiting = waiting[:0]
		p.turn()
		to.stamp = 0
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if s := p.eng[0].Stats(); s.BulkLeft != 0 || p.lane() != "proven" {
			t.Fatalf("packets of the bulk path waited for %v ms: it was left %d times", int(late), s.BulkLeft)
		}
	}
}

// A connection that begins, or that was idle, knows how long the hosts of other connections were busy. The timers of a connection to
// another host do not wait for them.
func TestConnectionsKnowBusyHosts(t *testing.T) {
	p := newPair(t, 1408).connect()
	c := p.conn(0)
	c.traffic.sent.loss.HeldByPeer(40*time.Millisecond, p.eng[0].now)
	for _, k := range []struct {
		host [16]byte
		want time.Duration
	}{{pairIP[1], 50 * time.Millisecond}, {pairIP[0], 0}} {
		other := &conn{engine: p.eng[0], identity: identity{remote: wire.Endpoint{IP: k.host}}, phase: phaseOpen, peerWindow: minWindow}
		fresh := new(traffic)
		fresh.stand(p.eng[0], other)
		other.rtt.Sample(time.Microsecond)
		fresh.sent.loss.Arm(p.eng[0].now, &other.rtt, minRTO, true)
		if at := fresh.sent.loss.TimerAt().Sub(p.eng[0].now); at < k.want || k.want == 0 && at >= minRTO {
			t.Errorf("the timer of a connection to %v waits %v", k.host, at)
		}
	}
}
