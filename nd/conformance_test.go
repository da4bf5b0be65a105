package nd

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/ndxdp/ndxdp/internal/conformance"
	"github.com/ndxdp/ndxdp/provider"
)

// provoke makes a call that must return the status of a row, and returns the status. For rows without a status number, and for
// success, it makes all checks itself.
type provoke func(t *testing.T, r *rig) error

// pending103 stands for a call that was observed to wait, because Go has no other form of PENDING.
const pending103 = Status(0x103)

// provokes has a test for each row of the table, apart from exceptions.
var provokes = func() map[string]provoke {
	all := map[string]provoke{}
	for _, m := range []map[string]provoke{
		adapterRows, createRows, queueRows, memoryRows, postRows, resultRows, connectRows, acceptRows, askRows, endRows, listenRows, helperRows,
		removedRows, windowRows, poolRows, tlsRows,
	} {
		maps.Copy(all, m)
	}
	return all
}()

// operations maps methods to the operation names in errors.
var operations = map[string]string{
	"QueryAddressList": "query address list", "ResolveAddress": "resolve address", "OpenAdapter": "open adapter", "Query": "query",
	"CreateCompletionQueue": "create completion queue", "CreateMemoryRegion": "create memory region",
	"CreateSharedReceiveQueue": "create shared receive queue", "Modify": "modify",
	"CreateQueuePairWithSrq": "create queue pair with shared receive queue",
	"CreateQueuePair":        "create queue pair", "CreateConnector": "create connector", "CreateListener": "create listener",
	"GetNotifyAffinity": "notify affinity", "Resize": "resize", "Notify": "notify", "Register": "register memory",
	"Deregister": "deregister memory", "CreateMemoryWindow": "create memory window", "Invalidate": "invalidate", "Send": "send", "Receive": "receive", "Read": "read", "Write": "write", "Bind": "bind",
	"Connect": "connect", "Connect:TLS": "connect", "UseTLS": "use TLS", "CompleteConnect": "complete connect", "Accept": "accept", "Reject": "reject",
	"GetReadLimits": "read limits", "GetPrivateData": "private data", "GetLocalAddress": "local address",
	"GetPeerAddress": "peer address", "NotifyDisconnect": "notify disconnect", "Disconnect": "disconnect", "Listen": "listen",
	"GetConnectionRequest": "get connection request", "NdCleanup": "close provider", "NdQueryAddressList": "query address list",
	"NdResolveAddress": "source address", "NdCheckAddress": "check address",
}

func TestConformance(t *testing.T) {
	t.Parallel()
	table, err := conformance.Load("testdata")
	must(t, err)
	must(t, conformance.Check(table, "ND2", provokes))
	r := commonRig(t)
	for _, row := range table.Tested("ND2") {
		t.Run(row.Key(), func(t *testing.T) {
			t.Parallel()
			err := provokes[row.Key()](t, r)
			code, numbered := row.Value()
			if !numbered {
				code = 0
			}
			wantStatus(t, row.Condition, err, Status(code))
			var failed *Error
			if op, known := operations[row.Method]; known && errors.As(err, &failed) && failed.Op != op {
				t.Errorf("%q failed, not %q: %v", failed.Op, op, err)
			}
		})
	}
}

// waits starts a call, observes that it waits, and ends it.
func waits(t *testing.T, call func() error, pends func() bool, end func()) error {
	t.Helper()
	done := start(call)
	eventually(t, "the call waits", pends)
	select {
	case err := <-done:
		t.Fatalf("it returned %v instead of waiting", err)
	default:
	}
	end()
	wantStatus(t, "ended", finish(t, "the call", done), ErrCanceled)
	return pending103
}

// endings ends a waiting call, and returns its error.
func endings(t *testing.T, call func() error, pends func() bool, end func()) error {
	t.Helper()
	done := start(call)
	eventually(t, "the call waits", pends)
	end()
	return finish(t, "the call", done)
}

// in reports whether a connector is in a state.
func in(c *Connector, s provider.ConnectorState) func() bool {
	return func() bool { return c.state() == s }
}

// ends returns one end on each side.
func (r *rig) ends(t testing.TB) (client, server *end) {
	t.Helper()
	return newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
}

// accepted brings two ends to the state in which the active side can complete the connection. done receives the result of the
// passive side's Accept.
func (r *rig) accepted(t testing.TB) (client, server *end, done <-chan error) {
	t.Helper()
	client, server = r.ends(t)
	connected := r.pendingConnect(t, client, server)
	done = start(func() error { return server.ctr.Accept(t.Context(), server.qp, helloParams) })
	must(t, finish(t, "connect", connected))
	return client, server, done
}

// requested brings two ends to the state in which the passive side has a request. connected receives the result of the active
// side's Connect.
func (r *rig) requested(t testing.TB) (client, server *end, connected <-chan error) {
	t.Helper()
	client, server = r.ends(t)
	return client, server, r.pendingConnect(t, client, server)
}

// afterRemoval makes a call on the objects of an adapter whose interface is gone: a connected end, an idle end and a listener.
func afterRemoval(call func(ctx context.Context, e, idle *end, l *Listener) error) provoke {
	return func(t *testing.T, _ *rig) error {
		r := newRig(t, 1500, DatapathAuto)
		e, _ := r.connect(t, 4096)
		idle := newEnd(t, r.a, 64)
		l, err := r.a.CreateListener()
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		r.removeInterface(t)
		return call(t.Context(), e, idle, l)
	}
}
