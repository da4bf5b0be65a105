package ndnet

import "errors"

// outgoing is the state of the peer's ring that this side writes. Positions are bytes from the beginning of the stream.
type outgoing struct {
	ring    grant
	base    uint64 // position whose byte is at the beginning of the ring
	written uint64 // position behind the sent bytes
	read    uint64 // position up to which the peer has read
	offered grant  // the next ring to use; size 0 for none
	told    bool   // the peer knows that its ring blocks this side
}

// room returns the free space of the ring in bytes.
func (o *outgoing) room() int {
	return int(o.ring.size) - int(o.written-max(o.read, o.base))
}

// takes returns how many of n bytes go into the ring now. If the room is much smaller than n, it is not worth a message: the peer soon reports
// more room.
func (o *outgoing) takes(n int) int {
	room := o.room()
	if room < n && room < int(o.ring.size)/8 {
		return 0
	}
	return min(n, room)
}

// direct reports whether bytes can be written into the ring; otherwise they go in messages.
func (o *outgoing) direct() bool { return o.ring.token != 0 }

// change switches to the offered ring if there is one, and says whether it did. The next message tells the peer.
func (o *outgoing) change() bool {
	if o.offered.size == 0 {
		return false
	}
	o.ring, o.base, o.offered = o.offered, o.written, grant{}
	return true
}

// restart begins again at the beginning of the ring if the peer has read everything, and says whether it did. The next message tells the
// peer. The beginning of the ring is most likely in the peer's cache, and a burst that fits the ring does not wrap.
func (o *outgoing) restart() bool {
	if o.read != o.written || uint32(o.written-o.base)&(o.ring.size-1) == 0 {
		return false
	}
	o.base = o.written
	return true
}

// at returns the address of the next bytes, and how many of n fit before the ring wraps.
func (o *outgoing) at(n int) (addr uint64, fits int) {
	off := uint32(o.written-o.base) & (o.ring.size - 1)
	return o.ring.addr + uint64(off), min(n, int(o.ring.size-off))
}

var (
	errCredit = errors.New("the peer confirmed bytes that were not written")
	errOffer  = errors.New("the peer offered a ring before the ring that it offered before was in use")
)

// credited handles the peer's read position.
func (o *outgoing) credited(read uint32) error {
	n := read - uint32(o.read)
	if uint64(n) > o.written-o.read {
		return errCredit
	}
	o.read += uint64(n)
	o.told = o.told && n == 0
	return nil
}

// offer records a ring to use next.
func (o *outgoing) offer(g grant) error {
	if o.offered.size != 0 {
		return errOffer
	}
	o.offered, o.told = g, false
	return nil
}
