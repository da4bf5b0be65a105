package provider

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// TestReceiveBitmapAgainstATwin drives recvSpace and a set of PSNs with random arrivals, from shortly before the PSN wraps
// until long after.
func TestReceiveBitmapAgainstATwin(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rs := recvSpace{next: wire.PSN(math.MaxUint32 - 300)}
		twin := map[wire.PSN]bool{} // arrived beyond next
		for range 20000 {
			ahead := uint32(rng.IntN(Window))
			if rng.IntN(3) == 0 {
				ahead = uint32(rng.IntN(4))
			}
			psn := rs.next.Add(ahead)
			if ahead > 0 {
				if rs.has(ahead-1) != twin[psn] {
					t.Fatalf("seed %d: PSN next+%d arrived: %v, twin %v", seed, ahead, rs.has(ahead-1), twin[psn])
				}
				rs.set(ahead - 1)
				twin[psn] = true
				continue
			}
			for arrived := true; arrived; { // what waited behind it is next in turn
				arrived = rs.has(0)
				rs.advance()
				if arrived != twin[rs.next] {
					t.Fatalf("seed %d: advance to %d, had arrived: %v", seed, rs.next, arrived)
				}
				delete(twin, rs.next)
			}
			if rs.holes != (len(twin) > 0) {
				t.Fatalf("seed %d: holes %v with %d packets waiting", seed, rs.holes, len(twin))
			}
		}
		for i := range uint32(Window - 1) {
			if rs.has(i) != twin[rs.next.Add(i+1)] {
				t.Fatalf("seed %d: bit %d", seed, i)
			}
		}
		if rs.next > math.MaxUint32/2 {
			t.Fatal("the PSN did not wrap")
		}
	}
}

// TestSequenceNumbersWrapUnderTraffic lets both spaces wrap while packets are lost.
func TestSequenceNumbersWrapUnderTraffic(t *testing.T) {
	p := newPair(t, 1408).connect()
	for i := range 2 {
		for space := range p.conn(i).tx {
			start := wire.PSN(math.MaxUint32 - 20 - uint32(7*space))
			p.conn(i).tx[space].next, p.conn(i).tx[space].una = start, start
			p.conn(1 - i).rx[space].next = start
		}
		p.link[i].loseNth = 9
	}
	for i := range 200000 {
		p.reg[0].Bytes()[i] = byte(i >> 4)
	}
	p.post(0, p.write(0, 0, 200000))
	p.post(0, &Request{Kind: KindRead, SGL: p.sge(0, 1<<20, 200000), Length: 200000, Addr: p.reg[1].Base(), Token: p.reg[1].Token()})
	p.pass(time.Second)
	p.outcomes(0, OutcomeSuccess, OutcomeSuccess)
	if !slices.Equal(p.reg[0].Bytes()[1<<20:][:200000], p.reg[0].Bytes()[:200000]) {
		t.Error("wrong bytes")
	}
	if next := p.conn(0).tx[0].next; next > math.MaxUint32/2 {
		t.Error("the PSN did not wrap")
	}
}

// vanish makes a connection go as if its end had started anew.
func (c *conn) vanish() {
	c.phase = phaseLingering
	c.free()
}
