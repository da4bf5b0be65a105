package nd

import (
	"context"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Notification is a wait that began when it was armed. An event between arming and waiting ends it, so no event is missed. Use it to check
// once more before waiting, or to wait for several things at once:
//
//	armed, err := cq.Arm(nd.NotifyAny)
//	…
//	if cq.GetResults(results) == 0 {
//		select {
//		case <-armed.Done():
//		case <-other:
//		}
//	}
//
// It ends once, with the outcome of the corresponding blocking call (Notify for Arm, and so on). It occupies about 300 bytes until
// it ends, so arm a new one only after the last has ended or was canceled. All methods may be called from any goroutine.
type Notification struct {
	adapter *Adapter
	op      string
	wait    *provider.Wait
	outcome provider.Outcome // written before ended is closed
	ended   chan struct{}
	sleeper chan struct{} // full while a goroutine sleeps in wait, which only one goroutine can
	sleep   func(*provider.Wait) bool
	release func() // lets another goroutine wait for packets
	cancel  func()
}

// newNotification makes a notification that has not ended.
func (a *Adapter) newNotification(op string) *Notification {
	return &Notification{
		adapter: a, op: op, wait: provider.NewWait(), ended: make(chan struct{}), sleeper: make(chan struct{}, 1),
		sleep: a.verbs.Sleep, release: a.verbs.ReleaseAll,
	}
}

// finish ends the notification. It is a provider.Finish.
func (n *Notification) finish(o provider.Outcome) {
	n.outcome = o
	close(n.ended)
	n.wait.Finish(o)
}

// over reports whether the notification has ended.
func (n *Notification) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when the notification ends, for a select with other channels. Err then says how it ended. A
// goroutine of the adapter waits for the packets meanwhile. If nothing else is waited for, Wait is faster.
func (n *Notification) Done() <-chan struct{} {
	if !n.over() {
		n.release()
	}
	return n.ended
}

// Err returns how the notification ended. It is nil if the awaited event occurred, and before the end.
//
// Errors: those of the call that waits for the same event.
func (n *Notification) Err() error {
	if !n.over() {
		return nil
	}
	return n.adapter.fail(n.op, noAddr, noAddr, n.outcome, nil)
}

// Wait waits until the notification ends and returns Err. If ctx ends first, the notification stays armed and may be waited for again.
// Several goroutines may wait. One of them waits for the packets itself, like the calls that wait.
//
// Errors: ErrCanceled with the context's error if ctx ended, ErrInvalidParameter if ctx is nil, and those of Err.
func (n *Notification) Wait(ctx context.Context) error {
	if err := checkContext(n.op, ctx); err != nil {
		return err
	}
	select {
	case <-n.ended:
		return n.Err()
	default:
	}
	select {
	case <-n.ended:
	case <-ctx.Done():
	case n.sleeper <- struct{}{}:
		n.rest(ctx)
		<-n.sleeper
	}
	if !n.over() {
		return n.adapter.fail(n.op, noAddr, noAddr, provider.OutcomeCanceled, context.Cause(ctx))
	}
	return n.Err()
}

// rest sleeps until the end of the notification or of ctx.
func (n *Notification) rest(ctx context.Context) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, n.wait.Interrupt)()
	}
	for ctx.Err() == nil && !n.sleep(n.wait) { // an Interrupt may have been meant for the previous sleeper
	}
}

// Cancel ends the notification with ErrCanceled, unless it has ended. Its event still counts as new for the next notification.
func (n *Notification) Cancel() { n.cancel() }

// Arm begins a Notify without waiting for it. A result that is already in the queue ends it at once, unless a previous notification
// reported it.
//
// Errors: ErrInvalidParameterN(1) for an unknown type, ErrDeviceRemoved. The notification ends as Notify does.
func (q *CompletionQueue) Arm(what NotifyType) (*Notification, error) {
	n := q.adapter.newNotification("notify")
	n.sleep, n.release = q.cq.Sleep, func() { q.adapter.verbs.Release(q.cq.CQ) }
	id, err := q.arm(what, n.finish)
	if err != nil {
		return nil, err
	}
	n.cancel = func() { q.cq.CancelWaiter(id, provider.OutcomeCanceled) }
	return n, nil
}

// arm adds a waiting notification of a type.
func (q *CompletionQueue) arm(what NotifyType, fin provider.Finish) (id uint64, err error) {
	if q.adapter.closed() {
		return 0, q.adapter.removed("notify")
	}
	level, ok := verbs.Level(what)
	if !ok {
		return 0, q.adapter.wrong("notify", 1)
	}
	return q.cq.Arm(level, fin), nil
}

// ArmDisconnect begins a NotifyDisconnect without waiting for it.
//
// Errors: ErrConnectionInvalid (never connected), ErrDeviceRemoved. The notification ends as NotifyDisconnect does.
func (c *Connector) ArmDisconnect() (*Notification, error) {
	n := c.adapter.newNotification("notify disconnect")
	id, err := c.armDisconnect(n.finish)
	if err != nil {
		return nil, err
	}
	n.cancel = func() { c.cancelNotification(id) }
	return n, nil
}

// armDisconnect adds a waiting notification.
func (c *Connector) armDisconnect(fin provider.Finish) (id uint64, err error) {
	o := c.k.Call(func() (o provider.Outcome) {
		id, o = c.k.NotifyDisconnect(fin)
		return o
	})
	return id, c.adapter.fail("notify disconnect", noAddr, noAddr, o, nil)
}

// ArmConnectionRequest begins a GetConnectionRequest without waiting for it. c is in use until the notification ends; if it ends without an
// error, c has a request.
//
// Errors: ErrInvalidDeviceState (not listening), ErrConnectionActive (c is in use, used up or closed), ErrInvalidParameterN(1) (c is nil or
// of another adapter), ErrDeviceRemoved. The notification ends as GetConnectionRequest does.
func (l *Listener) ArmConnectionRequest(c *Connector) (*Notification, error) {
	n := l.adapter.newNotification("get connection request")
	if err := l.armRequest(c, n.finish); err != nil {
		return nil, err
	}
	n.cancel = func() {
		l.adapter.do(func(*provider.Engine) {
			if !n.over() { // c may already wait for another request
				l.l.CancelRequest(c.k.Connector, provider.OutcomeCanceled)
			}
		})
	}
	return n, nil
}

// armRequest makes a connector wait for a request.
func (l *Listener) armRequest(c *Connector, fin provider.Finish) error {
	const op = "get connection request"
	if c == nil || c.adapter != l.adapter {
		return l.adapter.wrong(op, 1)
	}
	o := l.adapter.call(func(*provider.Engine) provider.Outcome { return l.l.GetRequest(c.k.Connector, fin) })
	return l.adapter.fail(op, noAddr, noAddr, o, nil)
}

// Arm begins a Notify without waiting for it.
//
// Errors: ErrDeviceRemoved if the adapter was closed. The notification ends as Notify does.
func (s *SharedReceiveQueue) Arm() (*Notification, error) {
	if s.adapter.closed() {
		return nil, s.adapter.removed("notify")
	}
	n := s.adapter.newNotification("notify")
	id := s.srq.Arm(n.finish)
	n.cancel = func() { s.srq.CancelWaiter(id, provider.OutcomeCanceled) }
	return n, nil
}
