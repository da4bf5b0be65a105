package ndnet

import "github.com/ndxdp/ndxdp/nd"

// Bounds of a message with data: the bytes of one Write, and the requests that must be free, one of which is reserved for a message without
// data. A message costs about as much as 64 KiB of data at either end, so sending does not begin before maxPiece is copied.
const (
	maxPiece  = 128 << 10
	dataSlots = 3
)

// sender is what a connection has to send, and what is in flight.
type sender struct {
	ring  sendRing
	block block    // the memory of ring
	old   *leaving // the previous ring, while bytes of it are in flight

	flight      [depth]flight // unacknowledged messages, oldest first
	list        [3]nd.SGE     // of the request being posted
	first, n    uint8
	requests    uint8 // outstanding requests: flight and unsent
	unsent      uint8 // requests not yet followed by a message
	number      uint  // number of the next message
	direct      int   // bytes of a Write sent from the caller's memory
	pass        int   // how many of them were acknowledged
	offer       grant
	offerDue    bool
	switchedDue bool
	restartDue  bool
	stalled     uint8 // checks of tidy that found bytes in flight and no progress
	signDue     bool  // a keep-alive is due
	flags       uint8 // flagEnd and flagGone, when they are to be sent
	saidFlags   uint8 // flags that were sent
}

// leaving is a send ring that only holds bytes in flight.
type leaving struct {
	ring  sendRing
	block block
}

// flight is an unacknowledged message.
type flight struct {
	bytes    uint32 // bytes that it frees in the send ring
	requests uint8
	direct   bool // its bytes are in the caller's memory
}

// unfinished reports whether something is left that could not be sent yet.
func (c *Conn) unfinished() bool {
	if c.failed != nil {
		return false
	}
	return c.send.ring.waiting() > 0 || c.controlDue()
}

// blocked reports whether the peer's ring has less room than there is to write.
func (c *Conn) blocked() bool {
	left := c.send.ring.waiting() + c.send.direct
	return left > c.out.room() || left > inlineMax && !c.out.direct()
}

// controlDue reports whether a message without data is due.
func (c *Conn) controlDue() bool {
	s := &c.send
	return s.offerDue || s.switchedDue || s.signDue || c.out.offered.size != 0 || c.in.due() || c.finalFlags() != s.saidFlags ||
		c.blocked() && !c.out.told
}

// finalFlags returns the flags that can be sent now: the end follows all data.
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

// next sends a message if one is due.
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

// mayData reports whether a message with data may be sent after behind more messages.
func (c *Conn) mayData(behind kind) bool {
	return c.credits.may(kindData+behind) && c.send.requests+uint8(behind)+dataSlots <= depth
}

// fits returns how many of n bytes the peer's ring takes now.
func (c *Conn) fits(n int) int {
	c.send.switchedDue = c.out.change() || c.send.switchedDue
	return c.out.takes(n)
}

// followed reports whether next will send more data directly after the message that is about to be posted, whose bytes are counted already.
func (c *Conn) followed() bool {
	n := c.send.ring.waiting()
	return n > 0 && c.mayData(1) && c.out.takes(n) > 0
}

// sendData sends the first n bytes of the send ring, or as many as fit into a message, or into the ring before it wraps.
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
	addr, n := c.place(n)
	a, b := c.send.ring.next(n)
	c.writePiece(c.entries(c.send.list[:0], a, b), addr, n)
	c.send.ring.posted += uint64(n)
	c.message(nil, nil, false)
	c.last().bytes = uint32(n)
}

// place returns the address of the next bytes in the peer's ring, and how many of n bytes one Write puts there.
func (c *Conn) place(n int) (addr uint64, fits int) {
	c.send.restartDue = c.out.restart()
	return c.out.at(min(n, maxPiece))
}

// entries appends SGEs for one or two pieces of the send ring.
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

// message sends a message. Its data is in one or two pieces of the send ring. direct says that a Write of the caller's memory preceded it.
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
	if s.restartDue {
		m.flags |= flagRestart
	}
	if c.out.told = c.blocked(); c.out.told {
		m.flags |= flagBlocked
		c.probeRoom()
	}
	s.offerDue, s.switchedDue, s.restartDue, s.signDue = false, false, false, false
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
		flags |= nd.OpDefer // both leave in one packet
	}
	s.requests++
	s.flight[(s.first+s.n)%depth] = flight{requests: s.unsent + 1, bytes: uint32(n), direct: direct}
	s.n++
	s.unsent = 0
	c.check(c.qp.Send(0, list, flags))
}

// last returns the newest unacknowledged message.
func (c *Conn) last() *flight { return &c.send.flight[(c.send.first+c.send.n-1)%depth] }

// check ends the connection if a post fails. The queue bounds are respected, so a failure means that the connection is over already.
func (c *Conn) check(err error) {
	if err != nil {
		c.fail(c.lost(err))
	}
}

// sent handles the acknowledgement of the oldest message.
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

// reserve makes room for n bytes in the send ring if possible, and returns how many fit.
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
		if len(s.ring.mem) > 0 { // it will become empty
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
