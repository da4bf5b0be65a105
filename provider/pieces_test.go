package provider

import (
	"bytes"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

// record keeps the bytes of the packets that a side receives.
func (p *pair) record(side int) *[][]byte {
	got := new([][]byte)
	p.link[side].router = func(t *TxPacket) (ce, ok bool) {
		var b []byte
		for _, f := range t.Frags[:t.N] {
			b = append(b, f.Data...)
		}
		*got = append(*got, b)
		return false, true
	}
	return got
}

// Full segments have a fast path. It must build the same packets as the ordinary path, byte by byte, in the same order, and must
// count the same accesses. Cases: Writes from one and from several memory ranges, and answers to READs.
func TestPiecesAreLikeOtherPackets(t *testing.T) {
	const length = 1_200_001
	requests := []struct {
		name string
		make func(p *pair) *listed
	}{
		{"Write", func(p *pair) *listed { return p.write(0, 0, length) }},
		{"Write of three entries", func(p *pair) *listed {
			r := p.write(0, 0, length)
			r.SGL = append(append(p.sge(0, 0, 500_001), p.sge(0, 2<<20, 1)...), p.sge(0, 1<<20, length-500_002)...)
			return r
		}},
		{"READ", func(p *pair) *listed {
			return &listed{SGL: p.sge(0, 1<<20, length), Request: Request{Kind: KindRead, Length: length, Addr: p.reg[1].Base() + 3, Token: p.reg[1].Token()}}
		}},
	}
	for _, size := range []int{1408, 8960, 65507} {
		for _, c := range requests {
			var sent [2][2]*[][]byte
			var accesses [2][2]uint64
			for together := range 2 {
				p := newTunedPair(t, size, 1, Config{Runs: true}).connect().warmedUp()
				p.pattern(length + 4)
				for side := range 2 {
					p.eng[side].copies = together == 1
					sent[together][side] = p.record(side)
				}
				p.post(0, c.make(p))
				p.runUntilIdle()
				p.outcomes(0, OutcomeSuccess)
				accesses[together][0], accesses[together][1] = p.reg[1].RemoteAccesses()
			}
			for side := range 2 {
				if one, all := *sent[0][side], *sent[1][side]; len(one) != len(all) {
					t.Errorf("%s, %d: side %d got %d packets that were built one by one, and %d", c.name, size, side, len(one), len(all))
				} else if i := differ(one, all); i >= 0 {
					t.Errorf("%s, %d: side %d got another packet %d of %d: %x, want %x", c.name, size, side, i, len(one), all[i][:wire.BaseHeaderLen], one[i][:wire.BaseHeaderLen])
				}
			}
			if accesses[0] != accesses[1] {
				t.Errorf("%s, %d: %d accesses are counted, want %d", c.name, size, accesses[1], accesses[0])
			}
		}
	}
}

// The last segment of a message has END, also if it fills its packet.
func TestLastPieceHasItsEnd(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{Runs: true}).connect().warmedUp()
	p.eng[0].copies = true
	for n := uint32(300 << 10); n < 300<<10+1344; n += 64 {
		p.post(0, p.write(0, 0, n))
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
	}
}

// A connection knows which of its contents are in flight on the bulk path. Contents that follow them use the bulk path too, so that
// they do not overtake them.
func TestPiecesAreOnTheLane(t *testing.T) {
	p := newTunedPair(t, 1408, 1, Config{BulkPort: bulkPort}).connect().warmedUp()
	p.stream(1 << 20) // confirms the bulk path
	p.post(0, p.write(0, 0, 1<<20))
	for range 20 {
		if c := p.conn(0); c.traffic.sent.spaces[wire.RequestSpace].Next().Offset() > 100<<10 && c.traffic.sent.bulkTo[wire.RequestSpace] != c.traffic.sent.spaces[wire.RequestSpace].Next() {
			t.Fatalf("sent up to %x, on the bulk path up to %x", c.traffic.sent.spaces[wire.RequestSpace].Next(), c.traffic.sent.bulkTo[wire.RequestSpace])
		}
		p.turn()
	}
	p.runUntilIdle()
	p.outcomes(0, OutcomeSuccess)
}

// differ returns the index of the first packet that differs, or -1.
func differ(a, b [][]byte) int {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return i
		}
	}
	return -1
}
