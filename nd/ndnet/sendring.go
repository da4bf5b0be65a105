package ndnet

// sendRing holds written bytes until they are sent and acknowledged. Bytes enter at tail, are posted, and leave at head, in order.
// Positions are bytes from the creation of the ring.
type sendRing struct {
	mem    []byte // a power of two; nil for none
	base   uint64 // position whose byte is at the beginning of mem
	head   uint64 // oldest unacknowledged byte
	posted uint64 // oldest byte that was not posted
	tail   uint64
}

func (r *sendRing) waiting() int  { return int(r.tail - r.posted) }
func (r *sendRing) inFlight() int { return int(r.posted - r.head) }
func (r *sendRing) free() int     { return len(r.mem) - int(r.tail-r.head) }

// at returns the offset of a position in mem.
func (r *sendRing) at(position uint64) int { return int(position-r.base) & (len(r.mem) - 1) }

// space returns contiguous memory for the next bytes. An empty ring starts again at the beginning of its memory. That part was used
// last, so it is most likely in a cache. A ring touches no more pages than the longest burst takes.
func (r *sendRing) space() []byte {
	if len(r.mem) == 0 {
		return nil
	}
	if r.head == r.tail {
		r.base = r.tail
	}
	off := r.at(r.tail)
	return r.mem[off:min(len(r.mem), off+r.free())]
}

// next returns the first n bytes that were not posted, in one or two pieces.
func (r *sendRing) next(n int) (a, b []byte) {
	off := r.at(r.posted)
	a = r.mem[off:min(len(r.mem), off+n)]
	return a, r.mem[:n-len(a)]
}

// moveTo moves the bytes that were not posted into other memory, which is large enough. It returns the old ring, which then only holds
// bytes in flight.
func (r *sendRing) moveTo(mem []byte) (left sendRing) {
	left = *r
	n := 0
	if r.waiting() > 0 {
		a, b := r.next(r.waiting())
		n = copy(mem, a)
		n += copy(mem[n:], b)
	}
	*r = sendRing{mem: mem, tail: uint64(n)}
	left.tail = left.posted
	return left
}
