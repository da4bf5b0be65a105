package provider

import (
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/provider/internal/recovery"
	"github.com/ndxdp/ndxdp/wire"
)

// This file bounds the memory of sent packets' records. Records of contents in flight are caused by this side. The others are answers and
// acknowledgements, which a peer makes this side send and need not acknowledge. They have a bound for each connection, and are charged to
// the peer's source.

// A connection has records for shortNumbers packets, and four times as many whenever it needs more, up to maxNumbers: enough for 10 Gb/s
// over 50 ms with packets of 1500 bytes. While fewer than a quarter of the packets have contents, it has at most maxEmptyNumbers records:
// enough to acknowledge each eighth packet of 10 Gb/s over 40 ms.
const (
	shortNumbers    = 64
	maxEmptyNumbers = 1 << 12
	maxNumbers      = wire.MaxNumbers
)

// numberSizes is how many sizes there are from shortNumbers, which is none of them, to maxNumbers.
const numberSizes = 5

// growNumbers makes room for more transmissions. It reports false when the connection has as many as it may.
func (s *sentState) growNumbers() bool {
	have := len(s.packets.Ring())
	size, empty := 4*have, 4*s.packets.PacketsInFlight() < have
	if size > maxNumbers || empty && (size > maxEmptyNumbers || !s.engine.store.Charge(s.account, (size-have)*recovery.PacketBytes, s.charged)) {
		return false
	}
	if empty {
		s.charged += (size - have) * recovery.PacketBytes
	}
	s.engine.pools.putNumbers(s.packets.Resize(s.engine.pools.getNumbers(size)))
	return true
}

// trimNumbers gives back what four times as many transmissions as are remembered would not need.
func (s *sentState) trimNumbers() {
	have, size := len(s.packets.Ring()), shortNumbers
	for size < 4*s.packets.Remembered() {
		size *= 4
	}
	if size >= have {
		return
	}
	ring := s.ring[:]
	if size > shortNumbers {
		ring = s.engine.pools.getNumbers(size)
	}
	s.engine.pools.putNumbers(s.packets.Resize(ring))
	kept := min(s.charged, (size-shortNumbers)*recovery.PacketBytes)
	s.engine.store.Refund(s.account, s.charged-kept)
	s.charged = kept
}

// openAccount charges what the connection makes its engine keep to the account of the peer's source there.
func (t *traffic) openAccount() {
	t.sent.account = t.engine.store.Open(guard.SourceOf(t.conn.identity.remote.IP))
	t.engine.store.Refund(t.sent.account, -t.sent.charged)
	for sp := range t.received.spaces {
		t.received.spaces[sp].gaps.Begin(t.sent.account)
	}
}

// closeAccount ends that. No packet waits behind a gap.
func (t *traffic) closeAccount() {
	t.engine.store.Refund(t.sent.account, t.sent.charged)
	t.engine.store.Close(t.sent.account)
	t.sent.account = nil
}
