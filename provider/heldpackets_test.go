package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// Packets that wait behind a gap.

// A copy of a packet that waits behind a gap is dropped and takes no memory. A copy that arrives after the gap has closed writes
// nothing.
func TestDuplicatesBehindAGap(t *testing.T) {
	p := newPair(t, 1408).connect()
	var copies [][]byte
	p.link[1].mangle = func(b []byte) bool { // the first packet is lost
		if sequenced(b) {
			copies = append(copies, append([]byte(nil), b...))
		}
		return !sequenced(b) || len(copies) > 1
	}
	again := func(b []byte) {
		tx := &TxPacket{N: 1, Len: len(b)}
		tx.Frags[0].Data = b
		p.link[1].mangle = nil
		p.link[1].deliver(tx, p.conn(1).identity.remote, wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort})
		p.runUntilIdle()
	}
	p.fill(0, 0, 3000, 1)
	p.post(0, p.write(0, 0, 3000))
	p.runUntilIdle()
	used, before := p.eng[1].store.Used(), p.eng[1].Stats().Drops[wire.DropDuplicate]
	again(copies[1])
	if got := p.eng[1].Stats().Drops[wire.DropDuplicate]; got != before+1 || p.eng[1].store.Used() != used || used == 0 {
		t.Errorf("%d duplicates are dropped, want %d; %d bytes wait, want %d", got, before+1, p.eng[1].store.Used(), used)
	}
	p.pass(50 * time.Millisecond)
	p.outcomes(0, OutcomeSuccess)
	p.fill(1, 0, 3000, 9)
	again(copies[1])
	again(copies[0])
	if !p.all(1, 0, 3000, 9) {
		t.Error("a copy was carried out")
	}
}

// The memory for packets behind a gap is bounded, whatever the packets carry. Further packets are dropped, and the sender
// retransmits them.
func TestHeldPacketsAreBounded(t *testing.T) {
	for _, kind := range []RequestKind{KindSend, KindWrite} {
		p := newTunedPair(t, 1408, 1, Config{HeldBytes: 3 * 2048}).connect()
		p.receive(1, 1<<20, 30000)
		p.runUntilIdle()
		lost := false
		p.link[1].mangle = func(b []byte) bool {
			if sequenced(b) && !lost {
				lost = true
				return false
			}
			return true
		}
		p.conn(0).peerWindow = 1 << 20 // more than the memory has space for
		r := p.write(0, 0, 30000)
		r.Kind = kind
		p.post(0, r)
		p.pass(100 * time.Millisecond)
		p.outcomes(0, OutcomeSuccess)
		if p.eng[1].Stats().Drops[wire.DropHoldFull] == 0 {
			t.Errorf("kind %d: nothing was beyond the bound", kind)
		}
		if used := p.eng[1].store.Used(); used != 0 {
			t.Errorf("kind %d: %d bytes are missing", kind, used)
		}
	}
}
