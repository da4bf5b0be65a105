package ndnet

import (
	"errors"

	"github.com/ndxdp/ndxdp/nd"
)

// ringGrant is a ring that the peer may write into: its memory and its memory window.
type ringGrant struct {
	block  block
	window *nd.MemoryWindow
}

// rings is the memory of a connection's incoming rings. A ring without a block is the first ring.
type rings struct{ now, before, next ringGrant }

// firstGrant is the size of the first ring that a peer may write into, once it has more to send than messages
// hold.
const firstGrant = 16 << 10

var errAfterEnd = errors.New("the peer wrote more after it had shut down writing")

// result handles a result. The caller holds mu.
func (c *Conn) result(r *nd.Result) {
	switch {
	case r.Status != nd.StatusSuccess:
		c.fail(c.lost(r.Status))
	case r.Type == nd.RequestSend:
		c.sent()
	case r.Type == nd.RequestReceive:
		if err := c.received(c.receiveBuffer(r.RequestID)[:r.Bytes]); err != nil {
			c.end(violated(err))
			return
		}
		if err := c.postReceive(r.RequestID); err != nil {
			c.fail(c.lost(err))
			return
		}
		c.credits.posted++
	}
}

// offer makes the next message offer a ring to the peer. Its memory is inside.next.
func (c *Conn) offer(ring []byte, g grant) {
	c.in.next = ring
	c.send.offer, c.send.offerDue = g, true
}

// end ends the connection for both sides because the peer broke the protocol.
func (c *Conn) end(err error) {
	if c.failed == nil {
		c.fail(err)
		go func() { _ = c.qp.Close() }() // never fails, and waits for the owner of the engine
	}
}

// received handles a message.
func (c *Conn) received(b []byte) error {
	m, err := parseMessage(b)
	if err != nil {
		return err
	}
	if err := c.credits.granted(m.receives); err != nil {
		return err
	}
	if err := c.out.credited(m.read); err != nil {
		return err
	}
	if m.flags&flagRing != 0 {
		if err := c.out.offer(m.offer); err != nil {
			return err
		}
	}
	if c.ended && m.written != uint32(c.in.written) {
		return errAfterEnd
	}
	switched, err := c.in.arrived(&m)
	if switched {
		c.inside.before = c.inside.now
		c.inside.now, c.inside.next = c.inside.next, ringGrant{}
		c.revoke(&c.inside.before)
		c.in.consume(0)
	}
	if err != nil {
		return err
	}
	c.ended = c.ended || m.flags&flagEnd != 0
	c.gone = c.gone || m.flags&flagGone != 0
	if c.deaf || c.closed {
		c.discard()
	}
	c.settle()
	return nil
}

// revoke ends the peer's right to write into a ring, which still has unread data.
func (c *Conn) revoke(r *ringGrant) {
	if r.window != nil {
		_ = r.window.Close() // never fails
		r.window = nil
	}
}

// settle frees the memory of a ring that was read, and offers a larger ring if the ring blocks the peer.
func (c *Conn) settle() {
	if c.closed { // release frees it
		return
	}
	if c.in.before == nil {
		c.network.pool.put(c.inside.before.block)
		c.inside.before = ringGrant{}
	}
	if c.ended || c.deaf {
		return
	}
	if size := c.in.wants(c.inside.now.window != nil, firstGrant, c.mostRead); size > 0 {
		c.grant(size)
	}
}

// grant offers the peer a ring. If there is no memory or no free request for it, the peer stays with its current
// ring.
func (c *Conn) grant(size int) {
	s := &c.send
	if s.requests+dataSlots > depth {
		return
	}
	b, err := c.network.pool.get(size)
	if err != nil {
		return
	}
	w, err := c.network.adapter.CreateMemoryWindow()
	if err == nil {
		if err = c.qp.Bind(0, b.slab.region, w, b.mem, nd.OpAllowWrite|nd.OpSilentSuccess); err != nil {
			_ = w.Close() // never fails
		}
	}
	if err != nil {
		c.network.pool.put(b)
		return
	}
	s.unsent++
	s.requests++
	c.inside.next = ringGrant{b, w}
	c.offer(b.mem, grant{addr: b.address(), token: uint32(w.RemoteToken()), size: uint32(size)})
	c.network.noteGrown(c)
}
