package ndnet

import "errors"

// incoming is the ring that the peer writes into, together with the previous ring while unread bytes remain in it. Positions are bytes
// from the beginning of the stream. It does not know where the memory comes from.
type incoming struct {
	now, before []byte // the ring in use, and the previous one, nil once it is read
	next        []byte // offered to the peer; nil for none
	base        uint64 // position whose byte is at the beginning of now
	lastBase    uint64 // the same for before
	written     uint64 // position behind the received bytes
	read        uint64 // position up to which the application has read
	told        uint64 // read position that the peer knows
	blocked     bool   // the peer has more to write than the ring takes
}

// unread returns how many received bytes wait to be read.
func (i *incoming) unread() int { return int(i.written - i.read) }

var (
	errWritten  = errors.New("the peer announced more bytes than the ring can hold")
	errSwitched = errors.New("the peer uses a ring that was not offered")
	errRestart  = errors.New("the peer restarted its ring before all bytes in it were read")
)

// arrived handles a message about bytes in the ring, and copies the bytes in the message itself.
func (i *incoming) arrived(m *message) (switched bool, err error) {
	if m.flags&flagSwitched != 0 {
		if i.next == nil {
			return false, errSwitched
		}
		switched = true
		i.before, i.lastBase = i.now, i.base
		i.now, i.base, i.next = i.next, i.written, nil
	}
	if m.flags&flagRestart != 0 {
		if i.read != i.written {
			return switched, errRestart
		}
		i.base = i.written
	}
	n := m.written - uint32(i.written)
	room := len(i.now) - int(i.written-max(i.read, i.base))
	if int64(n) > int64(room) || len(m.data) > int(n) {
		return switched, errWritten
	}
	i.written += uint64(n)
	if len(m.data) > 0 {
		off := int(i.written-uint64(len(m.data))-i.base) & (len(i.now) - 1)
		copy(i.now, m.data[copy(i.now[off:], m.data):])
	}
	i.blocked = m.flags&flagBlocked != 0
	return switched, nil
}

// peek returns the bytes that can be read in one piece.
func (i *incoming) peek() []byte {
	ring, base, end := i.now, i.base, i.written
	if i.read < i.base {
		ring, base, end = i.before, i.lastBase, i.base
	}
	off := int(i.read-base) & (len(ring) - 1)
	return ring[off:min(len(ring), off+int(end-i.read))]
}

// consume counts n bytes as read. The previous ring is dropped once it is read to its end.
func (i *incoming) consume(n int) {
	i.read += uint64(n)
	if i.before != nil && i.read >= i.base {
		i.before = nil
	}
}

// due reports whether the peer must be told the read position: if it does not know of half of the ring, or if it is blocked and everything
// is read.
func (i *incoming) due() bool {
	news := i.read - i.told
	return news >= uint64(len(i.now)/2) || news > 0 && i.blocked && i.read == i.written
}

// tell returns the read position for a message that is sent now.
func (i *incoming) tell() uint32 {
	i.told = i.read
	return uint32(i.read)
}

// wants returns the size of a larger ring that would unblock a blocked peer, or 0. The reader must keep up, so that the ring is what blocks
// the peer. granted says whether the peer can write into the current ring; the first writable ring is offered even if nobody reads.
func (i *incoming) wants(granted bool, first, limit int) int {
	if !i.blocked || i.next != nil || i.before != nil {
		return 0
	}
	size := first
	if granted {
		if i.unread() > len(i.now)/4 {
			return 0
		}
		size = min(growth*len(i.now), limit)
	}
	if size <= len(i.now) {
		return 0
	}
	return size
}

// growth is the factor by which the next ring is larger.
const growth = 4
