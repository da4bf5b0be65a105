//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// connector makes or accepts one connection, and turns what happens to it into events.
type connector struct {
	verbs.Connector
	adapter *adapter
	handle  uint64

	mu            sync.Mutex
	queue         *eventQueue // guarded by mu
	cookie        uint64      // guarded by mu
	stop          func()      // ends the search of an attempt; nil without one; guarded by mu
	closed        bool        // no further events; guarded by mu
	disconnecting bool        // the program ends the connection, so that its end is no event of its own; guarded by mu
}

// event makes an event of the connector. The caller holds mu, or has just made the connector.
func (c *connector) event(kind C.uint32_t) *event {
	e := &event{connector: c}
	e.ev._type, e.ev.cookie, e.ev.connector = kind, C.uint64_t(c.cookie), C.uint64_t(c.handle)
	return e
}

// ends writes what is known of both ends of a connection into an event: addresses, read limits and the peer's private data. The owner calls it.
func (e *event) ends(k *provider.Connector) {
	local, _ := k.Local()
	peer, _ := k.Peer()
	e.addresses(verbs.AddrPort(local), verbs.AddrPort(peer))
	inbound, outbound, _ := k.ReadLimits()
	e.ev.inbound_reads, e.ev.outbound_reads = C.uint32_t(inbound), C.uint32_t(outbound)
	data, _ := k.Private()
	e.private(data)
}

// tell pushes an event that fill completes, unless the connector is closed.
func (c *connector) tell(kind C.uint32_t, fill func(*event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || kind == C.NDX_EVENT_SHUTDOWN && c.disconnecting {
		return
	}
	e := c.event(kind)
	fill(e)
	c.queue.push(e)
}

// failed tells of the end of an attempt. The owner calls it.
func (c *connector) failed(o provider.Outcome, cause error) {
	data, _ := c.Private()
	c.tell(C.NDX_EVENT_FAILED, func(e *event) {
		e.ev.status = statuses[o]
		e.private(data)
		if cause != nil {
			putText(e.ev.text[:], cause.Error())
		}
	})
}

// established reports that the connection can be used, and will report its end. The owner calls it.
func (c *connector) established() {
	c.tell(C.NDX_EVENT_CONNECTED, func(e *event) { e.ends(c.Connector.Connector) })
	_, _ = c.NotifyDisconnect(func(o provider.Outcome) { // fails only for a connector that has no connection
		if o == provider.OutcomeCanceled { // ended by this side
			return
		}
		why := c.Cause()
		c.tell(C.NDX_EVENT_SHUTDOWN, func(e *event) {
			switch {
			case o != provider.OutcomeSuccess:
				e.ev.status = statuses[o]
			case why != provider.CausePeerDisconnected:
				e.ev.status = connectionLost
			}
			putText(e.ev.text[:], causes[why])
		})
	})
}

// done returns the end of a request that establishes a connection.
func (c *connector) done() provider.Finish {
	return func(o provider.Outcome) {
		if o == provider.OutcomeSuccess {
			c.established()
		} else {
			c.failed(o, nil)
		}
	}
}

//export ndxgo_connector_create
func ndxgo_connector_create(h, queue, cookie C.uint64_t, out *C.uint64_t) status {
	a, ok := adapters.get(h)
	q, also := queues.get(queue)
	if !ok || !also {
		return invalidHandle
	}
	if o := a.Create(verbs.ObjectConnector); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	c := &connector{Connector: a.NewConnector(), adapter: a, queue: q, cookie: uint64(cookie)}
	if c.handle = connectors.put(c); c.handle == 0 {
		c.release()
		return noResources
	}
	*out = C.uint64_t(c.handle)
	return success
}

//export ndxgo_connector_events
func ndxgo_connector_events(h, queue, cookie C.uint64_t) status {
	c, ok := connectors.get(h)
	q, also := queues.get(queue)
	if !ok || !also {
		return invalidHandle
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.queue
	c.queue, c.cookie = q, uint64(cookie)
	for _, e := range old.remove(func(e *event) bool { return e.connector == c }) {
		e.ev.cookie = cookie
		q.push(e)
	}
	return success
}

//export ndxgo_connector_bind
func ndxgo_connector_bind(h C.uint64_t, sa *C.struct_sockaddr, cause *C.char) status {
	c, ok := connectors.get(h)
	if !ok {
		return invalidHandle
	}
	use, o := c.Bind(fromC(sa))
	explain(cause, inUse(use))
	return statuses[o]
}

// inUse says who uses a port; nil if nobody is known.
func inUse(use verbs.PortUse) error {
	switch {
	case use.Listening:
		return errors.New("another listener of this adapter listens on the port: choose another port, or 0")
	case use.Users > 0:
		return fmt.Errorf("the port is bound by %d objects of this adapter: choose another port, or 0", use.Users)
	}
	return nil
}

//export ndxgo_connect
func ndxgo_connect(h, qp C.uint64_t, sa *C.struct_sockaddr, p *C.struct_ndx_connect_params, cause *C.char) status {
	c, ok := connectors.get(h)
	q, also := qps.get(qp)
	if !ok || !also {
		return invalidHandle
	}
	params, ok := parameters(p)
	if !ok {
		return invalidParameter
	}
	search, stop := context.WithCancel(context.Background())
	attempt := verbs.Attempt{QP: &q.QP, To: fromC(sa), Params: params}
	o := c.Begin(&attempt, stop, func(o provider.Outcome) {
		stop()
		if o == provider.OutcomeSuccess {
			go c.complete()
		} else {
			c.failed(o, c.why(o, attempt.To.String()))
		}
	})
	if o != provider.OutcomeSuccess {
		stop()
		explain(cause, unfit(o, c.adapter.Addr.String()))
		return statuses[o]
	}
	go func() { _ = c.adapter.Seek(search, c.Connector.Connector, attempt.To.Addr().Unmap()) }() // the attempt's outcome reports an error
	return success
}

// unfit returns the cause of an attempt that did not begin; nil where the status says everything.
func unfit(o provider.Outcome, local string) error {
	if o != verbs.OutcomeWrongFamily {
		return nil
	}
	return fmt.Errorf("this adapter has %s: IPv4 and IPv6 do not reach each other, connect from an address of the peer's family", local)
}

// why returns the cause of a failed attempt in words; nil where the status says everything. The owner calls it.
func (c *connector) why(o provider.Outcome, to string) error {
	switch {
	case c.Returned():
		return fmt.Errorf("%s: an ICMP error came back: no adapter is open there, or a router or firewall refuses the way", to)
	case o == provider.OutcomeRefused:
		return fmt.Errorf("%s: the adapter there refused: nothing listens on this ND port, its backlog is full, or the application rejected the connection", to)
	case o == provider.OutcomeIOTimeout && c.Answered():
		return fmt.Errorf("%s answered and then fell silent", to)
	case o == provider.OutcomeIOTimeout:
		return fmt.Errorf("%s: no answer: no adapter is open there, it has another UDP port, or a firewall is in the way", to)
	}
	return nil
}

// complete completes a connection that the peer accepted.
func (c *connector) complete() {
	c.Own(func(*provider.Engine) {
		if o := c.CompleteConnect(c.done()); o != provider.OutcomeSuccess {
			c.failed(o, nil)
		}
	})
}

//export ndxgo_accept
func ndxgo_accept(h, qp C.uint64_t, p *C.struct_ndx_connect_params) status {
	c, ok := connectors.get(h)
	q, also := qps.get(qp)
	if !ok || !also {
		return invalidHandle
	}
	params, ok := parameters(p)
	if !ok {
		return invalidParameter
	}
	return statuses[c.Call(func() provider.Outcome { return c.Accept(&q.QP, params, c.done(), nil) })]
}

//export ndxgo_reject
func ndxgo_reject(h C.uint64_t, data unsafe.Pointer, n C.uint32_t) status {
	c, ok := connectors.get(h)
	switch {
	case !ok:
		return invalidHandle
	case n > 1<<20 || n > 0 && data == nil:
		return invalidParameter
	}
	return statuses[c.Reject(C.GoBytes(data, C.int(n)))]
}

//export ndxgo_disconnect
func ndxgo_disconnect(h C.uint64_t) status {
	c, ok := connectors.get(h)
	if !ok {
		return invalidHandle
	}
	return statuses[c.Call(func() provider.Outcome {
		c.mu.Lock()
		before := c.disconnecting
		c.disconnecting = true
		c.mu.Unlock()
		o := c.Disconnect(func(o provider.Outcome) {
			c.tell(C.NDX_EVENT_DISCONNECTED, func(e *event) { e.ev.status = statuses[o] })
		})
		if o != provider.OutcomeSuccess {
			c.mu.Lock()
			c.disconnecting = before
			c.mu.Unlock()
		}
		return o
	})]
}

//export ndxgo_connector_address
func ndxgo_connector_address(h C.uint64_t, peer C.int, sa *C.struct_sockaddr_storage) status {
	c, ok := connectors.get(h)
	if !ok {
		return invalidHandle
	}
	get := c.LocalAddress
	if peer != 0 {
		get = c.PeerAddress
	}
	at, o := get()
	if o == provider.OutcomeSuccess {
		toC(sa, at)
	}
	return statuses[o]
}

//export ndxgo_connector_close
func ndxgo_connector_close(h C.uint64_t) status {
	c, ok := connectors.get(h)
	if !ok || !c.close() {
		return invalidHandle
	}
	return success
}

// close ends the connector and removes its events. It says whether this call was the first.
func (c *connector) close() (first bool) {
	if _, first = connectors.take(C.uint64_t(c.handle)); !first {
		return false
	}
	c.mu.Lock()
	c.closed = true
	queue := c.queue
	c.mu.Unlock()
	_ = queue.remove(func(e *event) bool { return e.connector == c }) // nobody will read them
	c.release()
	return true
}

// release gives up what the connector has in the adapter.
func (c *connector) release() {
	c.adapter.Objects.Give(verbs.ObjectConnector)
	c.Close()
}

// causes are the reasons why connections end, in words.
var causes = [provider.NumCauses]string{
	provider.CausePeerDisconnected: "the peer disconnected",
	provider.CausePeerGone:         "the peer is gone: it closed its end, its process or host ended, or it fell silent",
	provider.CauseRefusedThere:     "the peer refused a request of this side: token, range, right, length or limit",
	provider.CauseRefusedHere:      "this side refused a request of the peer: token, range, right, length or limit",
	provider.CauseLocalMemory:      "local memory is not registered: it is not inside the region of its token, or the region is closed",
	provider.CauseLocalRight:       "local memory lacks a right that the request needs: NDX_LOCAL_WRITE for receives and Reads",
	provider.CauseNoReceive:        "the peer posted no receive in time",
	provider.CausePeerFailed:       "a request of the peer failed at the peer, or waited too long for a receive here",
	provider.CauseOverrun:          "a completion queue of this side overran",
	provider.CauseProtocol:         "the peer broke the protocol",
	provider.CausePeerWantsTLS:     "the peer accepts encrypted connections only, which this library does not make: let its listener allow plain ones",
}
