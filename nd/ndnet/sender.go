package ndnet

import "github.com/ndxdp/ndxdp/nd"

// Bounds of a message with data: bytes that one Write carries, and requests that must be free, one of which stays for a message without data. What a message costs is
// as much as some 64 KiB of its bytes do, at either end, so that sending does not begin before maxPiece is copied.
const (
	maxPiece  = 128 << 10
	dataSlots = 3
)

// sender is what a connection has to say, and what of it is on its way.
type sender struct {
	ring  sendRing
	block block    // the memory of ring
	old   *leaving // the ring before, while bytes of it are on their way

	flight      [depth]flight // messages that are not acknowledged, oldest first
	list        [3]nd.SGE     // of the request that is posted now
	first, n    uint8
	requests    uint8 // outstanding, those of flight and unsent
	unsent      uint8 // requests that no message follows yet
	number      uint  // of the next message
	direct      int   // bytes of a Write that leave the caller's memory
	pass        int   // bytes of those that were acknowledged
	offer       grant
	offerDue    bool
	switchedDue bool
	stalled     uint8 // looks of tidy behind which bytes were on their way, and nothing had moved
	signDue     bool  // a sign of life, for keep-alive
	flags       uint8 // flagEnd and flagGone, when they are to be said
	saidFlags   uint8 // those that were
}

// leaving is a send ring that only holds bytes on their way.
type leaving struct {
	ring  sendRing
	block block
}

// flight is a message on its way.
type flight struct {
	bytes    uint32 // that it frees in the send ring
	requests uint8
	direct   bool // its bytes are the caller's
}

// unfinished says that there is something to send that could not be sent yet.
func (c *Conn) unfinished() bool {
	if c.failed != nil {
		return false
	}
	return c.send.ring.waiting() > 0 || c.controlDue()
}

// blocked says that the peer's ring takes less than there is to write.
func (c *Conn) blocked() bool {
	left := c.send.ring.waiting() + c.send.direct
	return left > c.out.room() || left > inlineMax && !c.out.direct()
}

// controlDue says whether a message is due that carries no data.
func (c *Conn) controlDue() bool {
	s := &c.send
	return s.offerDue || s.switchedDue || s.signDue || c.out.offered.size != 0 || c.in.due() || c.finalFlags() != s.saidFlags ||
		c.blocked() && !c.out.told
}

// finalFlags are those that can be said now: the end comes behind all data.
func (c *Conn) finalFlags() uint8 {
	f := c.send.flags
	if c.send.ring.waiting()+c.send.direct > 0 {
		f &^= flagEnd
	}
	return f | c.send.saidFlags
}

// flush sends what may be sent. The caller holds mu.
func (c *Conn) flush() {
	for c.failed == nil && c.next() {
	}
}

// next sends a message, if there is one to send.
func (c *Conn) next() bool {
	s := &c.send
	if s.ring.waiting() > 0 && c.mayData(0) {
		if n := c.fits(s.ring.waiting()); n > 0 {
			c.sendData(n)
			return true
		}
	}
	receives := c.credits.due() && c.credits.may(kindReceives)
	if s.requests < depth && (receives || c.controlDue() && c.credits.may(kindControl)) {
		s.switchedDue = c.out.change() || s.switchedDue
		c.message(nil, nil, false)
		return true
	}
	return false
}

// mayData says whether a message with data may be sent behind so many that are about to be.
func (c *Conn) mayData(behind kind) bool {
	return c.credits.may(kindData+behind) && c.send.requests+uint8(behind)+dataSlots <= depth
}

// fits is how many of n bytes the peer's ring takes now.
func (c *Conn) fits(n int) int {
	c.send.switchedDue = c.out.change() || c.send.switchedDue
	return c.out.takes(n)
}

// followed says that next sends more data at once, behind the message that is about to be posted, whose bytes are counted.
func (c *Conn) followed() bool {
	n := c.send.ring.waiting()
	return n > 0 && c.mayData(1) && c.out.takes(n) > 0
}

// sendData sends the first n bytes of the send ring, or less: those that fit into a message, or into the ring before it wraps.
func (c *Conn) sendData(n int) {
	limit := inlineMax
	if c.send.offerDue {
		limit -= offerLen
	}
	if n <= limit || !c.out.direct() {
		n = min(n, limit)
		a, b := c.send.ring.next(n)
		c.message(a, b, false)
		return
	}
	addr, n := c.out.at(min(n, maxPiece))
	a, b := c.send.ring.next(n)
	c.writePiece(c.entries(c.send.list[:0], a, b), addr, n)
	c.send.ring.posted += uint64(n)
	c.message(nil, nil, false)
	c.last().bytes = uint32(n)
}

// entries appends what names one piece of the send ring, or two.
func (c *Conn) entries(l []nd.SGE, a, b []byte) []nd.SGE {
	l = append(l, c.send.block.sge(a))
	if len(b) > 0 {
		l = append(l, c.send.block.sge(b))
	}
	return l
}

// writePiece writes n bytes into the peer's ring. A message follows.
func (c *Conn) writePiece(list []nd.SGE, addr uint64, n int) {
	c.check(c.qp.Write(0, list, addr, nd.Token(c.out.ring.token), nd.OpSilentSuccess|nd.OpDefer))
	c.out.written += uint64(n)
	c.send.unsent++
	c.send.requests++
}

// message sends a message. Its data is in the send ring, in one piece or two. direct says that a Write of the caller's memory was before it.
func (c *Conn) message(a, b []byte, direct bool) {
	s := &c.send
	n := len(a) + len(b)
	s.ring.posted += uint64(n)
	c.out.written += uint64(n)
	followed := c.followed()
	m := message{flags: c.finalFlags(), receives: c.credits.send(), written: uint32(c.out.written), read: c.in.tell()}
	s.saidFlags = m.flags
	if s.offerDue {
		m.flags |= flagRing
		m.offer = s.offer
	}
	if s.switchedDue {
		m.flags |= flagSwitched
	}
	if c.out.told = c.blocked(); c.out.told {
		m.flags |= flagBlocked
		c.probeRoom()
	}
	s.offerDue, s.switchedDue, s.signDue = false, false, false
	at := headersAt + int(s.number%depth)*headerSlot
	header := m.appendTo(c.control.mem[at : at : at+headerSlot])
	s.number++
	list := append(s.list[:0], c.control.sge(header))
	if n > 0 {
		list = c.entries(list, a, b)
	}
	var flags nd.OpFlags
	if n > 0 || s.unsent > 0 || m.flags != 0 {
		flags = nd.OpSolicit | nd.OpAnswered
	}
	if followed {
		flags |= nd.OpDefer // they leave in one packet
	}
	s.requests++
	s.flight[(s.first+s.n)%depth] = flight{requests: s.unsent + 1, bytes: uint32(n), direct: direct}
	s.n++
	s.unsent = 0
	c.check(c.qp.Send(0, list, flags))
}

// last is the newest message on its way.
func (c *Conn) last() *flight { return &c.send.flight[(c.send.first+c.send.n-1)%depth] }

// check ends the connection when a post fails: the bounds of its queues are kept, so that it is over already.
func (c *Conn) check(err error) {
	if err != nil {
		c.fail(c.lost(err))
	}
}

// sent takes in that the oldest message on its way has arrived.
func (c *Conn) sent() {
	s := &c.send
	f := s.flight[s.first]
	s.first = (s.first + 1) % depth
	s.n--
	s.stalled = 0
	s.requests -= f.requests
	switch {
	case f.direct:
		s.pass += int(f.bytes)
	case s.old != nil:
		if s.old.ring.head += uint64(f.bytes); s.old.ring.inFlight() == 0 {
			c.network.pool.put(s.old.block)
			s.old = nil
		}
	default:
		s.ring.head += uint64(f.bytes)
	}
}

// reserve makes room for n bytes in the send ring if that is possible, and says for how many there is.
func (c *Conn) reserve(n int) (int, error) {
	s := &c.send
	free := s.ring.free()
	if free >= n || s.old != nil {
		return free, nil
	}
	size := minBlock
	for size < len(s.ring.mem)-free+n && size < c.mostWrite {
		size *= 2
	}
	if size <= len(s.ring.mem) {
		return free, nil
	}
	b, err := c.network.pool.get(size)
	if err != nil {
		if len(s.ring.mem) > 0 { // it empties
			return free, nil
		}
		return 0, err
	}
	if left := s.ring.moveTo(b.mem); left.inFlight() > 0 {
		s.old = &leaving{left, s.block}
	} else {
		c.network.pool.put(s.block)
	}
	s.block = b
	c.network.noteGrown(c)
	return s.ring.free(), nil
}
