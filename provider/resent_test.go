package provider

import (
	"bytes"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// TestResentByCause has each cause of sending a packet again happen alone, and wants it counted under its name and nowhere else. What
// was sent again although the peer had it is known from the peer.
func TestResentByCause(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(p *pair)
		want Stats
	}{
		"a hole": {func(p *pair) {
			n := 0
			p.link[1].mangle = func(b []byte) bool {
				if sequenced(b) {
					n++
				}
				return n != 5 || !sequenced(b)
			}
			p.post(0, p.write(0, 0, 20*1344))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentLost: 1}},
		"the last packet": {func(p *pair) {
			p.loseFirst(1, 1, wire.OpWrite)
			p.post(0, p.write(0, 0, 64))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentProbe: 1}},
		"the last packet and its probe": {func(p *pair) {
			p.loseFirst(1, 2, wire.OpWrite)
			p.post(0, p.write(0, 0, 64))
			p.pass(20 * time.Millisecond)
		}, Stats{Retransmits: 2, ResentProbe: 1, ResentTimeout: 1}},
		"an acknowledgement": {func(p *pair) {
			p.loseFirst(0, 1, blocksAlone)
			p.post(0, p.write(0, 0, 64))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentProbe: 1, Duplicates: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect().warmedUp()
			for range 4 { // round trips to learn from
				p.post(0, p.write(0, 0, 64))
				p.runUntilIdle()
			}
			p.results(0)
			test.do(p)
			for _, r := range p.results(0) {
				if r.Outcome != OutcomeSuccess {
					t.Fatalf("%+v", r)
				}
			}
			wantResent(t, p, test.want)
		})
	}
	t.Run("no receive", func(t *testing.T) {
		p := newCommons(t, 1, 16)
		p.say(0, 1, 100)
		p.runUntilIdle()
		p.offer(1)
		p.pass(10 * time.Millisecond)
		p.heard(1)
		wantResent(t, p.pair, Stats{Retransmits: 1, ResentReceive: 1})
	})
}

// wantResent compares the counters of packets that side 0 sent again.
func wantResent(t *testing.T, p *pair, want Stats) {
	t.Helper()
	s := p.eng[0].Stats()
	got := Stats{
		Retransmits: s.Retransmits, ResentLost: s.ResentLost, ResentProbe: s.ResentProbe, ResentTimeout: s.ResentTimeout,
		ResentReceive: s.ResentReceive, Duplicates: s.Duplicates,
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Operations that are sent again have the PSN and the bytes that they had, under a new packet number (I7).
func TestPacketsSentAgainHaveTheSameBytes(t *testing.T) {
	p := newPair(t, 1408).connect()
	sent, carried, again := map[wire.PSN][]byte{}, 0, 0
	p.link[1].mangle = func(b []byte) bool {
		h := wire.BaseHeader(b)
		if h.OpCount() == 0 {
			return true
		}
		at, d := wire.ContentOffset(b)
		if d != wire.DropNone {
			t.Errorf("PSN %d: %v", h.PSN(), d)
		}
		carried++
		if old, ok := sent[h.PSN()]; ok {
			again++
			if !bytes.Equal(old, b[at:]) {
				t.Errorf("PSN %d: other bytes when it was sent again", h.PSN())
			}
		}
		sent[h.PSN()] = bytes.Clone(b[at:])
		return carried%7 != 3
	}
	for i := range 100 {
		p.receive(1, 1<<20, 2000)
		p.post(0, p.write(0, uint32(i)*3000, 3000))
		p.post(0, p.send(0, 2000))
		p.pass(time.Millisecond)
	}
	p.pass(time.Second)
	if again == 0 {
		t.Error("nothing was sent again")
	}
}
