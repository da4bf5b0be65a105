package provider

import "testing"

// watchLent counts the packets to a side on the bulk path that refer to application memory, and calls change for the memory of
// each.
func (p *pair) watchLent(side int, change func(memory []byte)) *int {
	n := 0
	p.link[side].router = func(t *TxPacket) (ce, ok bool) {
		last := &t.Frags[t.N-1]
		if last.ID != Lent || t.N == 1 { // a packet with a single part has engine memory
			return false, true
		}
		if !t.Bulk || t.N != 2 {
			p.tb.Errorf("a packet of %d parts with application memory, on the bulk path: %v", t.N, t.Bulk)
		}
		n++
		change(last.Data)
		return false, true
	}
	return &n
}

// Full bulk-path packets of long Writes and Sends refer to application memory. Short payload is copied, and so are READ answers,
// whose memory may change.
func TestRequestsAreLent(t *testing.T) {
	const length = 2 << 20
	for _, c := range []struct{ size, least, most int }{{8960, 200, 300}, {1408, 0, 100}} {
		p := newTunedPair(t, c.size, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
		nothing := func([]byte) {}
		requests, answers := p.watchLent(1, nothing), p.watchLent(0, nothing)
		p.stream(length)
		if *requests < c.least || *requests > c.most {
			t.Errorf("%d packets of a Write refer to application memory, want %d to %d", *requests, c.least, c.most)
		}
		before := p.eng[1].Stats().BulkPacketsOut
		p.post(0, &listed{SGL: p.sge(0, 2<<20, length), Request: Request{Kind: KindRead, Length: length, Addr: p.reg[1].Base(), Token: p.reg[1].Token()}})
		p.runUntilIdle()
		p.outcomes(0, OutcomeSuccess)
		if *answers > 0 || p.eng[1].Stats().BulkPacketsOut < before+uint64(length/c.size*9/10) {
			t.Errorf("%d of %d answers refer to application memory", *answers, p.eng[1].Stats().BulkPacketsOut-before)
		}
	}
}

// If memory changes while packets refer to it, packets are retransmitted, and the final contents arrive.
func TestLentMemoryThatChanges(t *testing.T) {
	p := newTunedPair(t, 8960, 1, Config{BulkPort: bulkPort, BulkAlways: true}).connect().warmedUp()
	changes := 0
	p.watchLent(1, func(memory []byte) {
		if changes++; changes%20 == 0 {
			memory[len(memory)/2] ^= 0xff
		}
	})
	p.stream(2 << 20)
	if s := p.eng[0].Stats(); changes < 100 || s.Retransmits == 0 || s.Lost != 0 {
		t.Errorf("%d packets refer to application memory, %d retransmitted", changes, s.Retransmits)
	}
}
