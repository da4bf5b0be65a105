package ndk

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/provider"
)

// way is one of the two functions that connect.
type way struct {
	name string
	call func(c *Connector, e *end, to netip.AddrPort, p ConnectParams, done Completion, context any) Status
}

var ways = []way{
	{"NDK_FN_CONNECT", func(c *Connector, e *end, to netip.AddrPort, p ConnectParams, done Completion, context any) Status {
		return c.Connect(e.qp, netipPort(e.a, 0), to, p, done, context)
	}},
	{"NDK_FN_CONNECT_WITH_SHARED_ENDPOINT", func(c *Connector, e *end, to netip.AddrPort, p ConnectParams, done Completion, context any) Status {
		s, status := e.a.CreateSharedEndpoint(netipPort(e.a, 0), nil, nil)
		if status != StatusSuccess {
			return status
		}
		defer s.Close(nil, nil) // ends when the connector ends
		return c.ConnectWithSharedEndpoint(e.qp, s, to, p, done, context)
	}},
}

// dials makes an end connect to an address, and returns the request.
func (w way) dials(t *testing.T, e *end, to netip.AddrPort, p ConnectParams) *pending {
	t.Helper()
	c := e.connector(t)
	return ask(t, func(done Completion, context any) Status { return w.call(c, e, to, p, done, context) })
}

// connectRows has the rows of both connect functions.
func connectRows() map[string]provoke {
	rows := map[string]provoke{}
	for _, w := range ways {
		key := "Connector/" + w.name + "/STATUS_"
		to := func(at func(r *rig) netip.AddrPort) provoke {
			return func(t *testing.T, r *rig) Status { return w.dials(t, newEnd(t, r.a, 64), at(r), hello).finish(t) }
		}
		rows[key+"SUCCESS"] = func(t *testing.T, r *rig) Status { return w.reaches(t, r, true) }
		rows[key+"PENDING"] = func(t *testing.T, r *rig) Status {
			return w.dials(t, newEnd(t, r.a, 64), netipPort(r.b, 9), hello).inline
		}
		rows[key+"CONNECTION_REFUSED"] = func(t *testing.T, r *rig) Status { return w.reaches(t, r, false) }
		rows[key+"NETWORK_UNREACHABLE"] = to(func(*rig) netip.AddrPort { return netip.MustParseAddrPort("224.0.0.1:9") })
		rows[key+"INVALID_PARAMETER"] = to(func(*rig) netip.AddrPort { return netip.AddrPort{} })
		rows[key+"IO_TIMEOUT"] = func(t *testing.T, r *rig) Status {
			e := newEnd(t, r.a, 64)
			silence(t, r.b)
			return w.dials(t, e, netipPort(r.b, 9), hello).finish(t)
		}
		rows[key+"HOST_UNREACHABLE"] = func(t *testing.T, _ *rig) Status {
			_, b, addr := overVeth(t, nd.DatapathUDP, "generic")
			return w.dials(t, newEnd(t, b, 64), netip.AddrPortFrom(addr[1].Next(), 9), hello).finish(t)
		}
		rows[key+"INVALID_BUFFER_SIZE"] = func(t *testing.T, r *rig) Status {
			return w.dials(t, newEnd(t, r.a, 64), netipPort(r.b, 9), ConnectParams{PrivateData: make([]byte, provider.MaxPrivateData+1)}).finish(t)
		}
		rows[key+"CONNECTION_ACTIVE"] = func(t *testing.T, r *rig) Status {
			client, _ := r.connected(t)
			return w.dials(t, client, netipPort(r.b, 9), hello).inline
		}
		rows[key+"CONNECTION_INVALID"] = func(t *testing.T, r *rig) Status {
			_, server, _ := r.requested(t)
			return w.dials(t, server, netipPort(r.a, 9), hello).inline
		}
		rows[key+"INVALID_DEVICE_STATE"] = func(t *testing.T, r *rig) Status {
			client, server := r.connected(t)
			parted(t, client, server)
			closed(t, client.ctr.Close)
			client.ctr = nil
			return w.dials(t, client, netipPort(r.b, 9), hello).inline
		}
		rows[key+"CANCELLED"] = func(t *testing.T, r *rig) Status {
			e := newEnd(t, r.a, 64)
			_, at, requests := listens(t, r.b)
			p := w.dials(t, e, at, hello)
			c := receive(t, "event", requests)
			closed(t, e.ctr.Close)
			e.ctr = nil
			closed(t, c.Close)
			return p.finish(t)
		}
		rows[key+"INSUFFICIENT_RESOURCES"] = func(t *testing.T, _ *rig) Status {
			// The peer does not answer, and the connection table has room for one connection.
			addr, port := netlabtest.Loopback(), netlabtest.FreePort(t)
			to := netip.AddrPortFrom(addr[1], 9)
			quiet(t, netip.AddrPortFrom(addr[1], port))
			small := openAdapter(t, AdapterConfig{Address: addr[0], UDPPort: port, Datapath: "udp", engine: provider.Config{MaxConns: 1}})
			first := w.dials(t, newEnd(t, small, 64), to, hello)
			want(t, "first", first.inline, StatusPending)
			eventually(t, "the first has its connection", func() bool { return small.verbs.Stats().Connections == 1 })
			return w.dials(t, newEnd(t, small, 64), to, hello).finish(t)
		}
	}
	rows["Connector/NDK_FN_CONNECT_WITH_SHARED_ENDPOINT/STATUS_ADDRESS_ALREADY_EXISTS"] = twice
	addressRows(rows)
	return rows
}

// reaches connects to a listener that may or may not accept.
func (w way) reaches(t *testing.T, r *rig, accepts bool) Status {
	t.Helper()
	e, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	_, at, requests := listens(t, r.b)
	p := w.dials(t, e, at, hello)
	server.ctr = receive(t, "event", requests)
	defer func() {
		closed(t, server.ctr.Close)
		server.ctr = nil
	}()
	if accepts {
		server.accept(t)
	} else {
		want(t, "reject", server.ctr.Reject(nil), StatusSuccess)
	}
	return p.finish(t)
}

// rivals connects to a peer that has a connection with another host between the same endpoints.
func rivals(t *testing.T, _ *rig) Status {
	_, st := connectToRival(t)
	return st
}

// twice connects from an address that already has a connection to the same destination.
func twice(t *testing.T, r *rig) Status {
	t.Helper()
	one, two := newEnd(t, r.a, 64), newEnd(t, r.a, 64)
	_, at, requests := listens(t, r.b)
	s, st := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
	created(t, s, st)
	first := ask(t, func(done Completion, context any) Status {
		return one.connector(t).ConnectWithSharedEndpoint(one.qp, s, at, hello, done, context)
	})
	c := receive(t, "event", requests)
	second := ask(t, func(done Completion, context any) Status {
		return two.connector(t).ConnectWithSharedEndpoint(two.qp, s, at, hello, done, context)
	})
	got := second.finish(t)
	want(t, "close", s.Close(nil, nil), StatusPending)
	closed(t, c.Close)
	want(t, "first", first.finish(t), StatusConnectionRefused)
	return got
}

// addressRows has the rows that apply only to a private source address.
func addressRows(rows map[string]provoke) {
	from := func(e *end, t *testing.T, src netip.AddrPort) Status {
		c := e.connector(t)
		return ask(t, func(done Completion, context any) Status {
			return c.Connect(e.qp, src, netip.AddrPortFrom(loopback[1], 9), hello, done, context)
		}).inline
	}
	rows["Connector/NDK_FN_CONNECT/STATUS_SHARING_VIOLATION"] = func(t *testing.T, r *rig) Status {
		s, st := r.a.CreateSharedEndpoint(netipPort(r.a, 0), nil, nil)
		defer closed(t, created(t, s, st).Close)
		at, _ := s.LocalAddress()
		return from(newEnd(t, r.a, 64), t, at)
	}
	rows["Connector/NDK_FN_CONNECT/STATUS_INVALID_ADDRESS"] = func(t *testing.T, r *rig) Status {
		return from(newEnd(t, r.a, 64), t, netipPort(r.b, 0))
	}
	rows["Connector/NDK_FN_CONNECT/STATUS_TOO_MANY_ADDRESSES"] = func(t *testing.T, r *rig) Status {
		r.useUpPorts(t)
		return from(newEnd(t, r.a, 64), t, netipPort(r.a, 0))
	}
	rows["Connector/NDK_FN_CONNECT/STATUS_ADDRESS_ALREADY_EXISTS"] = rivals
}
