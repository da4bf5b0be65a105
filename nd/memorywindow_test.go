package nd

import (
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

func newWindow(t *testing.T, a *Adapter) *MemoryWindow {
	t.Helper()
	w, err := a.CreateMemoryWindow()
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	return w
}

func TestBindRefused(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := postEnd(t, r.a), postEnd(t, r.b)
	w, foreign, closed := newWindow(t, r.a), newWindow(t, r.b), newWindow(t, r.a)
	must(t, closed.Close())
	readOnly, err := r.a.RegisterMemory(make([]byte, 64), 0)
	must(t, err)
	empty, err := r.a.CreateMemoryRegion()
	must(t, err)
	mem := client.mr.Bytes()
	wantStatus(t, "bind before connecting", client.qp.Bind(1, client.mr, w, mem, 0), ErrConnectionInvalid)
	wantStatus(t, "invalidate before connecting", client.qp.Invalidate(1, w, 0), ErrConnectionInvalid)
	wantStatus(t, "bind outside, before connecting", client.qp.Bind(1, client.mr, w, make([]byte, 8), 0), ErrConnectionInvalid)
	r.join(t, client, server)
	for _, c := range []struct {
		name   string
		region *MemoryRegion
		window *MemoryWindow
		buf    []byte
		flags  OpFlags
		want   Status
	}{
		{"no region", nil, w, mem, 0, ErrInvalidParameterN(2)},
		{"region of another adapter", server.mr, w, server.mr.Bytes(), 0, ErrInvalidParameterN(2)},
		{"no window", client.mr, nil, mem, 0, ErrInvalidParameterN(3)},
		{"window of another adapter", client.mr, foreign, mem, 0, ErrInvalidParameterN(3)},
		{"closed window", client.mr, closed, mem, 0, ErrInvalidParameterN(3)},
		{"flag of send", client.mr, w, mem, OpSolicit, ErrInvalidParameterN(6)},
		{"inline", client.mr, w, mem, OpInline, ErrInvalidParameterN(6)},
		{"other memory", client.mr, w, make([]byte, 8), 0, ErrAccessViolation},
		{"no memory", client.mr, w, nil, 0, ErrAccessViolation},
		{"write to read-only", readOnly, w, readOnly.Bytes(), OpAllowWrite, ErrAccessViolation},
		{"not registered", empty, w, nil, 0, ErrAccessViolation},
	} {
		wantStatus(t, c.name, client.qp.Bind(1, c.region, c.window, c.buf, c.flags), c.want)
	}
	wantStatus(t, "no window", client.qp.Invalidate(1, nil, 0), ErrInvalidParameterN(2))
	wantStatus(t, "window of another adapter", client.qp.Invalidate(1, foreign, 0), ErrInvalidParameterN(2))
	wantStatus(t, "flags", client.qp.Invalidate(1, w, OpAllowRead), ErrInvalidParameterN(3))
	client.wantNoResult(t)
	if w.RemoteToken() != 0 {
		t.Error("a Bind that failed changed the window")
	}
	for i := range 4 {
		must(t, client.qp.Send(uint64(i), nil, 0)) // blocked: the peer has posted no receive
	}
	wantStatus(t, "queue full", client.qp.Bind(1, client.mr, w, mem, 0), ErrNoMoreEntries)
	wantStatus(t, "queue full", client.qp.Invalidate(1, w, 0), ErrNoMoreEntries)
}

// A region with a bound window cannot be deregistered, but can be closed. Windows end with their connection.
func TestDeregisterWithAWindow(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	w := newWindow(t, r.b)
	must(t, server.qp.Bind(1, server.mr, w, server.mr.Bytes()[64:128], OpAllowRead))
	server.wantResult(t, 1, RequestBind, StatusSuccess)
	wantStatus(t, "deregister", server.mr.Deregister(), ErrDeviceBusy)
	must(t, client.qp.Read(2, []SGE{client.mr.SGE(0, 64)}, server.mr.Address()+64, w.RemoteToken(), 0))
	client.wantResult(t, 2, RequestRead, StatusSuccess)
	if reads, writes := w.RemoteAccesses(); reads == 0 || writes != 0 { // a retransmitted answer counts again
		t.Errorf("%d reads, %d writes", reads, writes)
	}
	must(t, server.qp.Invalidate(3, w, OpSilentSuccess))
	must(t, server.qp.Bind(4, server.mr, w, server.mr.Bytes()[:0], 0))
	server.wantResult(t, 4, RequestBind, StatusSuccess)
	wantStatus(t, "deregister", server.mr.Deregister(), ErrDeviceBusy)
	disconnectBoth(t, server, client)
	must(t, server.mr.Deregister())
	wantStatus(t, "deregister again", server.mr.Deregister(), ErrInvalidDeviceState)
}

// If a region or a window in use is closed, the peer's access is refused, and the connection ends.
func TestCloseWithAWindowBound(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, what := range []string{"region", "window"} {
		client, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
		mr, err := r.b.RegisterMemory(make([]byte, 64), MRAllowLocalWrite)
		must(t, err)
		r.join(t, client, server)
		w := newWindow(t, r.b)
		must(t, server.qp.Bind(1, mr, w, mr.Bytes(), OpAllowWrite))
		server.wantResult(t, 1, RequestBind, StatusSuccess)
		if what == "region" {
			must(t, mr.Close())
		} else {
			must(t, w.Close())
			must(t, mr.Deregister())
		}
		must(t, client.qp.Write(2, []SGE{client.mr.SGE(0, 8)}, mr.Address(), w.RemoteToken(), 0))
		client.wantResult(t, 2, RequestWrite, ErrAccessViolation)
		if s := client.ctr.state(); s != provider.CtrLost {
			t.Errorf("%s: %v", what, s)
		}
	}
}

// Bind of a bound window and Invalidate of an unbound window end the connection.
func TestBindOutOfTurn(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, _ := r.connect(t, 64)
	w := newWindow(t, r.a)
	must(t, client.qp.Bind(1, client.mr, w, client.mr.Bytes(), OpAllowRead|OpSilentSuccess|OpReadFence))
	must(t, client.qp.Bind(2, client.mr, w, client.mr.Bytes(), OpAllowRead))
	client.wantResult(t, 2, RequestBind, ErrInvalidDeviceRequest)
	client, _ = r.connect(t, 64)
	must(t, client.qp.Invalidate(3, w, 0))
	client.wantResult(t, 3, RequestInvalidate, ErrInvalidDeviceRequest)
}

func TestWindowsOfAClosedAdapter(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, server := newEnd(t, r.a, 64), newEnd(t, r.b, 64)
	r.join(t, client, server)
	w := newWindow(t, r.a)
	must(t, client.qp.Bind(1, client.mr, w, client.mr.Bytes(), 0))
	client.wantResult(t, 1, RequestBind, StatusSuccess)
	must(t, r.a.Close())
	_, err := r.a.CreateMemoryWindow()
	wantStatus(t, "create", err, ErrDeviceRemoved)
	wantStatus(t, "bind", client.qp.Bind(2, client.mr, w, client.mr.Bytes(), 0), ErrDeviceRemoved)
	wantStatus(t, "invalidate", client.qp.Invalidate(2, w, 0), ErrDeviceRemoved)
	must(t, client.mr.Deregister()) // the window went with its queue pair
}

// When any Close of a window returns, no peer can access the memory, also if a concurrent Close has yet to end the binding.
func TestEveryCloseOfAWindowWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, _ := r.connect(t, 4096)
	w, err := r.a.CreateMemoryWindow()
	must(t, err)
	must(t, client.qp.Bind(1, client.mr, w, client.mr.Bytes(), OpAllowRead))
	client.wantResult(t, 1, RequestBind, StatusSuccess)
	calls := make([]<-chan error, 8)
	r.a.Stall(func() {
		for i := range calls {
			calls[i] = start(func() error {
				defer func() {
					if w.window.Bound() {
						t.Error("Close returned while the window was bound")
					}
				}()
				return w.Close()
			})
		}
		eventually(t, "a Close has begun", w.closed.Load)
	})
	for _, call := range calls {
		must(t, finish(t, "close", call))
	}
}
