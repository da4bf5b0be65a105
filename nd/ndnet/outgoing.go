package ndnet

import "errors"

// outgoing is what this side knows of the ring that it writes at the peer. Positions are bytes of the stream since the beginning.
type outgoing struct {
	ring    grant
	base    uint64 // position of the first byte that went into the ring
	written uint64 // position behind what was sent
	read    uint64 // position up to which the peer has read
	offered grant  // the ring to use next; size 0 for none
	told    bool   // the peer knows that it holds us up
}

// room is how many bytes the ring takes now.
func (o *outgoing) room() int {
	return int(o.ring.size) - int(o.written-max(o.read, o.base))
}

// takes is how many of n bytes go into the ring now. A remainder of the ring that is much smaller than what waits is not worth a message: the peer soon tells of more.
func (o *outgoing) takes(n int) int {
	room := o.room()
	if room < n && room < int(o.ring.size)/8 {
		return 0
	}
	return min(n, room)
}

// direct says that bytes can be written into the ring, and not in messages alone.
func (o *outgoing) direct() bool { return o.ring.token != 0 }

// change goes over to the ring that was offered, if there is one, and says whether it did. The next message tells the peer.
func (o *outgoing) change() bool {
	if o.offered.size == 0 {
		return false
	}
	o.ring, o.base, o.offered = o.offered, o.written, grant{}
	return true
}

// at says where the next bytes go, and how many of n before the ring wraps.
func (o *outgoing) at(n int) (addr uint64, fits int) {
	off := uint32(o.written-o.base) & (o.ring.size - 1)
	return o.ring.addr + uint64(off), min(n, int(o.ring.size-off))
}

var (
	errCredit = errors.New("the peer says that it has read bytes that were not written")
	errOffer  = errors.New("the peer offered a ring before the one it offered last was in use")
)

// credited takes in how far the peer has read.
func (o *outgoing) credited(read uint32) error {
	n := read - uint32(o.read)
	if uint64(n) > o.written-o.read {
		return errCredit
	}
	o.read += uint64(n)
	o.told = o.told && n == 0
	return nil
}

// offer takes in a ring to use next.
func (o *outgoing) offer(g grant) error {
	if o.offered.size != 0 {
		return errOffer
	}
	o.offered, o.told = g, false
	return nil
}
