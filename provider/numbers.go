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
func (t *transmitted) growNumbers() bool {
	have := len(t.sent.Ring())
	size, empty := 4*have, 4*t.sent.PacketsInFlight() < have
	if size > maxNumbers || empty && (size > maxEmptyNumbers || !t.store.Charge(t.account, (size-have)*recovery.PacketBytes, t.charged)) {
		return false
	}
	if empty {
		t.charged += (size - have) * recovery.PacketBytes
	}
	t.pools.putNumbers(t.sent.Resize(t.pools.getNumbers(size)))
	return true
}

// trimNumbers gives back what four times as many transmissions as are remembered would not need.
func (t *transmitted) trimNumbers() {
	have, size := len(t.sent.Ring()), shortNumbers
	for size < 4*t.sent.Remembered() {
		size *= 4
	}
	if size >= have {
		return
	}
	ring := t.numbers[:]
	if size > shortNumbers {
		ring = t.pools.getNumbers(size)
	}
	t.pools.putNumbers(t.sent.Resize(ring))
	kept := min(t.charged, (size-shortNumbers)*recovery.PacketBytes)
	t.store.Refund(t.account, t.charged-kept)
	t.charged = kept
}

// openAccount charges what the connection makes its engine keep to the account of the peer's source there.
func (t *traffic) openAccount() {
	t.account = t.store.Open(guard.SourceOf(t.identity.remote.IP))
	t.store.Refund(t.account, -t.charged)
	for sp := range t.rx {
		t.rx[sp].gaps.Begin(t.account)
	}
}

// closeAccount ends that. No packet waits behind a gap.
func (t *traffic) closeAccount() {
	t.store.Refund(t.account, t.charged)
	t.store.Close(t.account)
	t.account = nil
}
