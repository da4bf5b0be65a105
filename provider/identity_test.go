package provider

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/wire"
)

// A REP answers only the REQ whose nonce it repeats, and an ICMP error concerns only the REQ that it quotes.
func TestIdentity(t *testing.T) {
	i := identity{
		id: 1, peerID: 2, nonce: 3, active: true, localND: 50000, peerN: pairPort,
		local: wire.Endpoint{IP: pairIP[0], Port: 40000}, remote: wire.Endpoint{IP: pairIP[1], Port: wire.DefaultPort},
	}
	if i.tuple() != (tuple{addrPort{IP: pairIP[0], Port: 50000}, addrPort{IP: pairIP[1], Port: pairPort}}) || i.peerKey() != (peerKey{pairIP[1], 2}) {
		t.Errorf("%v, %v", i.tuple(), i.peerKey())
	}
	answer := wire.Hello{ConnID: 2, Nonce: 3, UDPPort: 9, MaxPacket: wire.MinPacket, Window: 1}
	if !i.isAnswer(&answer) {
		t.Error("a valid answer is refused")
	}
	answer.Nonce++
	if i.isAnswer(&answer) {
		t.Error("the answer to another attempt is taken")
	}
	ours := Quote{From: i.local, To: i.remote}
	for name, c := range map[string]struct {
		change func(i *identity, q *Quote, w *wire.Quote)
		want   bool
	}{
		"short":         {func(*identity, *Quote, *wire.Quote) {}, true},
		"whole":         {func(_ *identity, _ *Quote, w *wire.Quote) { w.HasNonce, w.Nonce = true, 3 }, true},
		"another nonce": {func(_ *identity, _ *Quote, w *wire.Quote) { w.HasNonce, w.Nonce = true, 4 }, false},
		"passive":       {func(i *identity, _ *Quote, _ *wire.Quote) { i.active = false }, false},
		"to elsewhere":  {func(_ *identity, q *Quote, _ *wire.Quote) { q.To.IP[15]++ }, false},
		"of elsewhere":  {func(_ *identity, q *Quote, _ *wire.Quote) { q.From.IP[15]++ }, false},
		"another port":  {func(_ *identity, q *Quote, _ *wire.Quote) { q.From.Port++ }, false},
	} {
		i, q, w := i, ours, wire.Quote{}
		c.change(&i, &q, &w)
		if got := i.quoted(&q, &w); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A connection moves to another engine after so many packets in a row from that engine's queue. After each move it takes twice as
// many.
func TestMisrouted(t *testing.T) {
	var m misrouted
	for move := range 3 {
		for range followAfter << move / 2 {
			m.landed(1)
		}
		if m.landed(0) || m.from != 0 {
			t.Fatal("a packet on the right queue does not reset the count")
		}
		for i := range followAfter<<move - 1 {
			if m.landed(2) {
				t.Fatalf("move %d after %d packets", move, i+1)
			}
		}
		if m.landed(1); !m.landedRow(2, followAfter<<move) {
			t.Errorf("no move %d", move)
		}
		m.leave()
	}
	for range 100 {
		m.leave()
	}
	if m.moves != maxMoves || m.landed(1) {
		t.Errorf("%+v", m)
	}
}

// landedRow reports whether the last of n packets from one queue makes the connection move.
func (m *misrouted) landedRow(from link.Number, n int) (follow bool) {
	for range n {
		follow = m.landed(from)
	}
	return follow
}
