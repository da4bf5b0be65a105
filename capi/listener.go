//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// listener turns connection requests into events.
type listener struct {
	verbs.Listener
	adapter *adapter
	queue   *eventQueue
	cookie  uint64
}

//export ndxgo_listen
func ndxgo_listen(
	h C.uint64_t, sa *C.struct_sockaddr, backlog C.uint32_t, queue, cookie C.uint64_t, cause *C.char, out *C.uint64_t,
) status {
	a, ok := adapters.get(h)
	q, also := queues.get(queue)
	if !ok || !also {
		return invalidHandle
	}
	if o := a.Create(verbs.ObjectListener); o != provider.OutcomeSuccess {
		return statuses[o]
	}
	l := &listener{adapter: a, queue: q, cookie: uint64(cookie)}
	l.Listener = a.NewListener(l.arrived)
	use, o := l.Bind(fromC(sa))
	if o == provider.OutcomeSuccess {
		o = l.Listen(int(min(backlog, 1<<30)))
	}
	handle := uint64(0)
	if o == provider.OutcomeSuccess {
		if handle = listeners.put(l); handle == 0 {
			o = provider.OutcomeInsufficientResources
		}
	}
	if o != provider.OutcomeSuccess {
		explain(cause, inUse(use))
		l.close()
		return statuses[o]
	}
	*out = C.uint64_t(handle)
	return success
}

// arrived makes a request an event. The owner of the leading engine calls it.
func (l *listener) arrived(k *provider.Connector) {
	if !l.adapter.Objects.Take(verbs.ObjectConnector) {
		k.Close()
		return
	}
	c := &connector{adapter: l.adapter, Connector: l.adapter.Arrived(k), queue: l.queue, cookie: l.cookie}
	if c.handle = connectors.put(c); c.handle == 0 {
		l.adapter.Objects.Give(verbs.ObjectConnector)
		k.Close()
		return
	}
	e := c.event(C.NDX_EVENT_REQUEST)
	e.listener = l
	e.ends(k)
	if !l.queue.push(e) {
		connectors.take(C.uint64_t(c.handle))
		l.adapter.Objects.Give(verbs.ObjectConnector)
		k.Close()
	}
}

//export ndxgo_listener_address
func ndxgo_listener_address(h C.uint64_t, sa *C.struct_sockaddr_storage) status {
	l, ok := listeners.get(h)
	if !ok {
		return invalidHandle
	}
	at, o := l.LocalAddress()
	if o == provider.OutcomeSuccess {
		toC(sa, at)
	}
	return statuses[o]
}

//export ndxgo_listener_close
func ndxgo_listener_close(h C.uint64_t) status {
	l, ok := listeners.take(h)
	if !ok {
		return invalidHandle
	}
	l.close()
	l.queue.refuse(func(e *event) bool { return e.listener == l })
	return success
}

func (l *listener) close() {
	l.adapter.Objects.Give(verbs.ObjectListener)
	l.Close()
}

// parameters converts the parameters of a connection.
func parameters(p *C.struct_ndx_connect_params) (out provider.ConnectParams, ok bool) {
	if p == nil {
		return out, true
	}
	if p.private_length > 1<<20 || p.private_length > 0 && p.private_data == nil {
		return out, false
	}
	return provider.ConnectParams{
		Inbound: uint32(p.inbound_reads), Outbound: uint32(p.outbound_reads),
		Private: C.GoBytes(p.private_data, C.int(p.private_length)),
	}, true
}
