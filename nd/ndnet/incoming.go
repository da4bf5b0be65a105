package ndnet

import "errors"

// incoming is the ring into which the peer writes, with the ring before it while that has bytes left. Positions are bytes of the
// stream since the beginning. It knows nothing of where the memory comes from.
type incoming struct {
	now, before []byte // the ring in use, and the one before it, nil when that is read
	next        []byte // was offered to the peer; nil for none
	base        uint64 // position of the first byte in now
	lastBase    uint64 // of the first byte in before
	written     uint64 // position behind what arrived
	read        uint64 // position up to which the application has read
	told        uint64 // up to which the peer knows
	blocked     bool   // the peer has more to write than the ring takes
}

// unread is how many bytes wait.
func (i *incoming) unread() int { return int(i.written - i.read) }

var (
	errWritten  = errors.New("the peer says that it has written more than the ring takes")
	errSwitched = errors.New("the peer uses a ring that was not offered")
)

// arrived takes in what a message says of bytes in the ring, and copies those that it brings itself.
func (i *incoming) arrived(m *message) (switched bool, err error) {
	if m.flags&flagSwitched != 0 {
		if i.next == nil {
			return false, errSwitched
		}
		switched = true
		i.before, i.lastBase = i.now, i.base
		i.now, i.base, i.next = i.next, i.written, nil
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

// peek is what can be read in one piece.
func (i *incoming) peek() []byte {
	ring, base, end := i.now, i.base, i.written
	if i.read < i.base {
		ring, base, end = i.before, i.lastBase, i.base
	}
	off := int(i.read-base) & (len(ring) - 1)
	return ring[off:min(len(ring), off+int(end-i.read))]
}

// consume counts n bytes as read. The ring before is no more once it is read to its end.
func (i *incoming) consume(n int) {
	i.read += uint64(n)
	if i.before != nil && i.read >= i.base {
		i.before = nil
	}
}

// due says that the peer must hear how far the application has read: because half of the ring is news to it, or because it waits, and
// there is nothing left to read.
func (i *incoming) due() bool {
	news := i.read - i.told
	return news >= uint64(len(i.now)/2) || news > 0 && i.blocked && i.read == i.written
}

// tell is how far the application has read, for a message that is sent now.
func (i *incoming) tell() uint32 {
	i.told = i.read
	return uint32(i.read)
}

// wants is the size of a larger ring that would let a peer that waits go on, 0 for none: the reader keeps up, and the ring is what holds
// the peer up. granted says that the peer can write into the ring at all; its first ring it gets whether or not somebody reads.
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

// growth is how many times as large the next ring is.
const growth = 4
