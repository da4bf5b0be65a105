package nd

import (
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// MemoryWindow grants the peer of one queue pair access to a part of a memory region for as long as it is bound. QueuePair.Bind
// binds it, QueuePair.Invalidate ends that, and so does the end of the queue pair's connection. Granting and revoking cost no
// packet and no registration. It may be used from any goroutine.
type MemoryWindow struct {
	adapter *Adapter
	window  *provider.MemoryWindow
	closed  atomic.Bool
}

// CreateMemoryWindow makes a window that is bound to nothing.
//
// Errors: ErrInsufficientResources when the adapter has 65,536 windows that are not closed, or as many windows and registrations,
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

// RemoteToken returns the token to give to the peer: that of the newest Bind, valid as soon as Bind has returned, before its
// result. Each Bind makes a new one. It is zero before the first.
func (w *MemoryWindow) RemoteToken() Token { return Token(w.window.Token()) }

// RemoteAccesses counts the packets with which peers read and wrote through the window. They do not count at its region.
func (w *MemoryWindow) RemoteAccesses() (reads, writes uint64) { return w.window.RemoteAccesses() }

// Close ends the window, bound or not: when it returns no peer gets at memory through it. Requests that still name it fail,
// and their connection with them. Closing twice is harmless.
func (w *MemoryWindow) Close() error {
	if !w.closed.Swap(true) {
		w.adapter.verbs.Objects.Give(verbs.ObjectMW)
	}
	w.adapter.verbs.DoAll(func() { w.adapter.verbs.Memory.ReleaseWindow(w.window) }) // another Close may have it to do yet
	return nil
}

// Bind posts the binding of window to buf, a part of region, so that the peer of this queue pair may read it with OpAllowRead and
// write it with OpAllowWrite; with neither it may do nothing. The region needs no remote right for that, but MRAllowLocalWrite for
// OpAllowWrite. The peer names the bytes by their address in the region (MemoryRegion.Address) and window.RemoteToken(). A Send that is
// posted after Bind may carry the token. A window that is bound already when the request's turn comes ends it with
// ErrInvalidDeviceRequest, and the connection.
//
// Errors: ErrInvalidParameterN(2) for a region that is nil or another adapter's, (3) for a window that is that or closed, (6) flags; ErrConnectionInvalid;
// ErrAccessViolation for memory outside the region, a region that is not registered or closed, and a missing right; ErrNoMoreEntries, ErrDeviceRemoved.
// A call that fails gives no result.
func (q *QueuePair) Bind(context uint64, region *MemoryRegion, window *MemoryWindow, buf []byte, flags OpFlags) error {
	const op = "bind"
	switch {
	case region == nil || region.adapter != q.adapter:
		return q.wrong(op, 2)
	case !q.usable(window):
		return q.wrong(op, 3)
	case flags&^(OpSilentSuccess|OpReadFence|OpAllowRead|OpAllowWrite) != 0:
		return q.wrong(op, 6)
	}
	return q.posted(op, q.qp.Bind(context, region.mr.Newest(), window.window, buf, provider.PostFlags(flags)))
}

// Invalidate posts the end of a window's binding to this queue pair: when the result is there, the peer's access is over, and an
// attempt ends its connection. Access that is under way fails. A window that is not bound when the request's turn comes ends it
// with ErrInvalidDeviceRequest, and the connection.
//
// Errors: ErrInvalidParameterN(2) for a window that is nil, closed or another adapter's, (3) flags; ErrConnectionInvalid;
// ErrNoMoreEntries, ErrDeviceRemoved. A call that fails gives no result.
func (q *QueuePair) Invalidate(context uint64, window *MemoryWindow, flags OpFlags) error {
	const op = "invalidate"
	switch {
	case !q.usable(window):
		return q.wrong(op, 2)
	case flags&^(OpSilentSuccess|OpReadFence) != 0:
		return q.wrong(op, 3)
	}
	return q.posted(op, q.qp.Invalidate(context, window.window, provider.PostFlags(flags)))
}

// usable says whether requests of this queue pair may name w.
func (q *QueuePair) usable(w *MemoryWindow) bool {
	return w != nil && w.adapter == q.adapter && !w.closed.Load()
}
