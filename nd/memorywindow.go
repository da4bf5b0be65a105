package nd

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MemoryWindow grants the peer of one queue pair access to a part of a memory region while it is bound. QueuePair.Bind binds it.
// QueuePair.Invalidate unbinds it, and so does the end of the queue pair's connection. Granting and revoking need neither a packet nor a
// registration. It may be used from any goroutine.
type MemoryWindow struct {
	adapter *Adapter
	window  *provider.MemoryWindow
	closed  atomic.Bool
}

// CreateMemoryWindow makes an unbound window.
//
// Errors: ErrInsufficientResources if the adapter has 65,536 windows that are not closed, or as many windows and registrations,
// ErrDeviceRemoved.
func (a *Adapter) CreateMemoryWindow() (*MemoryWindow, error) {
	const op = "create memory window"
	if err := a.create(op, verbs.ObjectMW); err != nil {
		return nil, err
	}
	w, err := a.verbs.Memory.NewWindow()
	if err != nil {
		a.verbs.Objects.Give(verbs.ObjectMW)
		return nil, &Error{Op: op, Status: ErrInsufficientResources}
	}
	return &MemoryWindow{adapter: a, window: w}, nil
}

// RemoteToken returns the token to give to the peer. Each Bind makes a new token, which is valid as soon as Bind has returned, before its
// result. It is zero before the first Bind.
func (w *MemoryWindow) RemoteToken() Token { return Token(w.window.Token()) }

// RemoteAccesses counts the packets by which peers read and wrote through the window. They do not count for its region.
func (w *MemoryWindow) RemoteAccesses() (reads, writes uint64) { return w.window.RemoteAccesses() }

// Close ends the window, bound or not: when it returns, no peer can access memory through it. Requests that still name it fail, and their
// connection with them. Closing twice is harmless.
func (w *MemoryWindow) Close() error {
	if !w.closed.Swap(true) {
		w.adapter.verbs.Objects.Give(verbs.ObjectMW)
	}
	w.adapter.verbs.DoAll(func() { w.adapter.verbs.Memory.ReleaseWindow(w.window) }) // a concurrent Close may still have to do it
	return nil
}

// Bind posts a request that binds window to buf, a part of region. The peer of this queue pair may then read buf if flags have OpAllowRead,
// and write it if they have OpAllowWrite. The region needs no remote right; OpAllowWrite needs MRAllowLocalWrite. The peer names the bytes
// by their address in the region (MemoryRegion.Address) and window.RemoteToken(). A Send posted after Bind may carry the token. If the
// window is still bound when the request is carried out, the request ends with ErrInvalidDeviceRequest, and so does the connection.
//
// Errors: ErrInvalidParameterN(2) for a region that is nil or another adapter's, (3) for a window that is nil, closed or another adapter's,
// (6) flags. ErrConnectionInvalid; ErrAccessViolation for memory outside the region, a region that is not registered or closed, and a
// missing right; ErrNoMoreEntries, ErrDeviceRemoved. A call that fails gives no result.
func (q *QueuePair) Bind(id uint64, region *MemoryRegion, window *MemoryWindow, buf []byte, flags OpFlags) error {
	const op = "bind"
	switch {
	case region == nil || region.adapter != q.adapter:
		return q.wrong(op, 2)
	case !q.usable(window):
		return q.wrong(op, 3)
	case flags&^(OpSilentSuccess|OpReadFence|OpAllowRead|OpAllowWrite) != 0:
		return q.wrong(op, 6)
	}
	return q.posted(op, q.qp.Bind(id, region.mr.Newest(), window.window, buf, provider.PostFlags(flags)))
}

// Invalidate posts a request that ends a window's binding to this queue pair. When its result is there, the peer's access is over: a later
// access ends the peer's connection, and an access in progress fails. If the window is not bound when the request is carried out, the
// request ends with ErrInvalidDeviceRequest, and so does the connection.
//
// Errors: ErrInvalidParameterN(2) for a window that is nil, closed or another adapter's, (3) flags; ErrConnectionInvalid; ErrNoMoreEntries,
// ErrDeviceRemoved. A call that fails gives no result.
func (q *QueuePair) Invalidate(id uint64, window *MemoryWindow, flags OpFlags) error {
	const op = "invalidate"
	switch {
	case !q.usable(window):
		return q.wrong(op, 2)
	case flags&^(OpSilentSuccess|OpReadFence) != 0:
		return q.wrong(op, 3)
	}
	return q.posted(op, q.qp.Invalidate(id, window.window, provider.PostFlags(flags)))
}

// usable reports whether requests of this queue pair may use w.
func (q *QueuePair) usable(w *MemoryWindow) bool {
	return w != nil && w.adapter == q.adapter && !w.closed.Load()
}
