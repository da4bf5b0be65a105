package ndnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// lingerTime bounds how long a closed connection keeps delivering what was written before.
const lingerTime = 10 * time.Second

// Conn is a net.Conn with half close.
type Conn struct {
	network       *Network
	connector     *nd.Connector
	cq            *nd.CompletionQueue
	qp            *nd.QueuePair
	memory        *nd.MemoryRegion
	local, remote Addr
	size          int             // bytes of one buffer
	payload       int             // most bytes of data in a message that both sides can take
	life          context.Context // ends when a closed connection has lingered long enough
	end           context.CancelFunc

	writing sync.Mutex // one Write at a time, so that none is cut in two by another

	mu      sync.Mutex // guards what follows
	changed sync.Cond  // any of it changed
	failed  error      // the connection is lost
	closed  bool       // by us
	read    readSide
	write   writeSide
	results [32]nd.Result
}

// readSide is what arrived.
type readSide struct {
	deadline deadline
	waiting  []arrived // messages with data left, oldest first; a queue over a fixed array
	posted   uint32    // receives ever posted
	told     uint32    // of those, how many the peer knows of
	ended    bool      // the peer shut down writing
	gone     bool      // the peer does not read any more
	spins    int       // how often a reader looks before it sleeps
}

// arrived is a message that is not read whole.
type arrived struct{ buffer, off, end int }

// writeSide is what leaves.
type writeSide struct {
	deadline   deadline
	free       []int  // buffers
	sent       uint32 // messages ever sent
	limit      uint32 // how many of those the peer has receives for
	ended      bool   // we shut down writing
	signalDue  bool   // a message without data is to be sent as soon as it can be
	finalFlags uint8  // its flags
}

// newConn makes a connection that is not connected. It owns k, or makes a connector.
func (n *Network) newConn(k *nd.Connector) (_ *Conn, err error) {
	c := &Conn{network: n, connector: k, size: n.cfg.BufferBytes}
	c.changed.L = &c.mu
	c.life, c.end = context.WithCancel(context.Background())
	n.busy.Add(1)
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if k == nil {
		if c.connector, err = n.adapter.CreateConnector(); err != nil {
			return nil, err
		}
	}
	buffers := n.cfg.Buffers
	if c.cq, err = n.adapter.CreateCompletionQueue(2 * buffers); err != nil {
		return nil, err
	}
	c.qp, err = n.adapter.CreateQueuePair(nd.QueuePairConfig{ReceiveCQ: c.cq, InitiatorCQ: c.cq, ReceiveDepth: buffers, InitiatorDepth: buffers})
	if err != nil {
		return nil, err
	}
	if c.memory, err = n.adapter.AllocateMemory(2*buffers*c.size, nd.MRAllowLocalWrite); err != nil {
		return nil, err
	}
	c.read.spins = spinMax
	c.read.waiting = make([]arrived, 0, buffers)
	for i := range buffers {
		if err = c.post(i); err != nil {
			return nil, err
		}
		c.write.free = append(c.write.free, buffers+i)
	}
	c.read.told = c.read.posted
	return c, nil
}

// post makes a buffer a receive. The caller holds mu, or is alone.
func (c *Conn) post(buffer int) error {
	if err := c.qp.Receive(uint64(buffer), []nd.SGE{c.memory.SGE(buffer*c.size, c.size)}); err != nil {
		return err
	}
	c.read.posted++
	return nil
}

func (c *Conn) params() nd.ConnectParams {
	g := greeting{receives: c.network.cfg.Buffers, maxMessage: c.size}
	return nd.ConnectParams{PrivateData: g.encode()}
}

// greet takes in what the peer offers.
func (c *Conn) greet() error {
	data, err := c.connector.PrivateData()
	if err != nil {
		return err
	}
	g, err := parseGreeting(data)
	if err != nil {
		return err
	}
	c.write.limit = uint32(g.receives)
	c.payload = min(c.size, g.maxMessage) - headerLen
	return nil
}

// begin starts the goroutine that takes results, once the connection is made.
func (c *Conn) begin() {
	// Both are there as long as the connection is; if it is over already, the next call tells.
	local, _ := c.connector.LocalAddress()
	remote, _ := c.connector.PeerAddress()
	c.local, c.remote = Addr{local}, Addr{remote}
	go c.run()
}

// run takes results until the connection is over, and then releases everything.
func (c *Conn) run() {
	for {
		err := c.cq.Notify(c.life, nd.NotifyAny)
		c.mu.Lock()
		c.processResults()
		if err != nil && c.failed == nil {
			c.fail(err)
		}
		over := c.failed != nil || c.closed && c.drained()
		c.mu.Unlock()
		if over {
			break
		}
	}
	c.mu.Lock()
	for !c.closed {
		c.changed.Wait()
	}
	lost := c.failed != nil
	c.mu.Unlock()
	if !lost {
		_ = c.connector.Disconnect(c.life) // whatever it says, it is over
	}
	c.release()
}

// drained says that everything written has arrived at the peer. The caller holds mu.
func (c *Conn) drained() bool {
	return !c.write.signalDue && len(c.write.free) == c.network.cfg.Buffers
}

// release gives everything back.
func (c *Conn) release() {
	c.end()
	if c.connector != nil {
		_ = c.connector.Close()
	}
	if c.qp != nil {
		_ = c.qp.Close()
	}
	if c.cq != nil {
		_ = c.cq.Close()
	}
	if c.memory != nil {
		_ = c.memory.Close()
	}
	c.network.busy.Done()
}

// processResults handles the results there are. The caller holds mu.
func (c *Conn) processResults() {
	for {
		n := c.cq.GetResults(c.results[:])
		for i := range c.results[:n] {
			c.result(&c.results[i])
		}
		if n > 0 {
			c.changed.Broadcast()
		}
		if n < len(c.results) {
			return
		}
	}
}

func (c *Conn) result(r *nd.Result) {
	buffer := int(r.RequestContext)
	switch {
	case r.Status != nd.StatusSuccess:
		c.fail(r.Status)
	case r.Type == nd.RequestSend:
		c.write.free = append(c.write.free, buffer)
		c.sendPending()
	default:
		c.arrive(buffer, int(r.Bytes))
	}
}

// arrive takes in a message.
func (c *Conn) arrive(buffer, n int) {
	flags, posted, err := parseHeader(c.buffer(buffer)[:n])
	if err != nil {
		c.fail(err)
		return
	}
	if int32(posted-c.write.limit) > 0 {
		c.write.limit = posted
	}
	c.read.ended = c.read.ended || flags != 0
	c.read.gone = c.read.gone || flags&flagGone != 0
	if n > headerLen && !c.closed {
		c.read.waiting = append(c.read.waiting, arrived{buffer, headerLen, n})
	} else {
		c.recycle(buffer)
	}
	c.sendPending()
}

func (c *Conn) buffer(i int) []byte { return c.memory.Bytes()[i*c.size:][:c.size] }

// recycle posts a buffer again, and tells the peer when half of its receives are news.
func (c *Conn) recycle(buffer int) {
	if err := c.post(buffer); err != nil {
		c.fail(err)
		return
	}
	if c.read.posted-c.read.told >= uint32(c.network.cfg.Buffers/2) {
		c.write.signalDue = true
		c.sendPending()
	}
}

// sendPending sends the message without data that is due, if a buffer is free and the peer has a receive. The last receive is kept
// for such messages: a side that may not send data can still tell the other one that it may.
func (c *Conn) sendPending() {
	w := &c.write
	if w.signalDue && c.failed == nil && len(w.free) > 0 && int32(w.limit-w.sent) > 0 {
		c.send(nil)
	}
}

// send sends a message. The caller made sure that there is room.
func (c *Conn) send(data []byte) {
	w := &c.write
	last := len(w.free) - 1
	buffer := w.free[last]
	w.free = w.free[:last]
	b := c.buffer(buffer)
	flags := uint8(0)
	if len(data) == 0 {
		flags = w.finalFlags
	}
	putHeader(b, flags, c.read.posted)
	n := headerLen + copy(b[headerLen:], data)
	w.signalDue = w.signalDue && w.finalFlags != flags // the end comes behind all data
	c.read.told = c.read.posted
	w.sent++
	if err := c.qp.Send(uint64(buffer), []nd.SGE{c.memory.SGE(buffer*c.size, n)}, 0); err != nil {
		c.fail(err)
	}
}

// fail notes that the connection is lost. The caller holds mu.
func (c *Conn) fail(err error) {
	if c.failed != nil {
		return
	}
	if errors.Is(err, nd.ErrCanceled) {
		err = syscall.ECONNRESET // the peer went away; what was outstanding is canceled
	}
	c.failed = err
	c.changed.Broadcast()
}

// opError is the error of a call, as package net makes them.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "nd", Source: c.local, Addr: c.remote, Err: err}
}

// LocalAddr returns our ND address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's ND address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.read.deadline, &c.write.deadline)
}

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded; zero is never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.read.deadline) }

// SetWriteDeadline sets the time after which Write fails with os.ErrDeadlineExceeded; zero is never. What was taken by then is
// delivered all the same.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.write.deadline) }

func (c *Conn) setDeadlines(t time.Time, ds ...*deadline) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, d := range ds {
		d.set(t, &c.mu, c.changed.Broadcast)
	}
	c.changed.Broadcast()
	return nil
}
