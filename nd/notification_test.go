package nd

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// armedDone waits for the end of a notification by its channel, together with a channel that never receives.
func armedDone(t *testing.T, what string, n *Notification) error {
	t.Helper()
	select {
	case <-n.Done():
	case <-make(chan struct{}):
	case <-time.After(patience):
		netlabtest.Hang(t, "%s: nothing within %v", what, patience)
	}
	return n.Err()
}

// armedWait waits for a notification by a call of Wait.
func armedWait(t *testing.T, what string, n *Notification) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := n.Wait(ctx)
	if ctx.Err() != nil {
		t.Errorf("%s: nothing within %v", what, patience)
	}
	return err
}

func arm(t *testing.T, e *end, what NotifyType) *Notification {
	t.Helper()
	n, err := e.cq.Arm(what)
	must(t, err)
	return n
}

func armDisconnect(t *testing.T, e *end) *Notification {
	t.Helper()
	n, err := e.ctr.ArmDisconnect()
	must(t, err)
	return n
}

// An event between arming and waiting, or during the wait, ends the notification. This holds for the channel and for Wait, over
// AF_XDP and plain sockets.
func TestArmedMissesNothing(t *testing.T) {
	t.Parallel()
	for _, dp := range []Datapath{DatapathGeneric, DatapathUDP, DatapathRing} {
		r := newRig(t, 1500, dp)
		for name, await := range map[string]func(*testing.T, string, *Notification) error{"channel": armedDone, "call": armedWait} {
			t.Run(dp.String()+"/"+name, func(t *testing.T) {
				client, server := r.connect(t, 4096)
				for i := range uint64(20) {
					must(t, server.qp.Receive(i, nil))
					n := arm(t, server, NotifyAny)
					must(t, client.qp.Send(i, nil, 0))
					if i%2 == 0 { // the event comes before the wait
						eventually(t, "the message", func() bool { return server.cq.cq.Queued() == 1 })
					}
					must(t, await(t, "message", n))
					server.wantResult(t, i, RequestReceive, StatusSuccess)
					client.wantResult(t, i, RequestSend, StatusSuccess)
				}
				over := armDisconnect(t, server)
				ended := start(func() error { return client.ctr.Disconnect(t.Context()) })
				must(t, await(t, "the end of the connection", over))
				must(t, await(t, "an end that is past", armDisconnect(t, server)))
				must(t, server.ctr.Disconnect(t.Context()))
				must(t, finish(t, "disconnect", ended))

				l, at := listen(t, r.b, 0)
				client, server = newEnd(t, r.a, 64), newEnd(t, r.b, 64)
				request, err := l.ArmConnectionRequest(server.ctr)
				must(t, err)
				connected := start(func() error { return client.ctr.Connect(t.Context(), client.qp, at, ConnectParams{}) })
				must(t, await(t, "request", request))
				must(t, server.ctr.Reject(nil))
				wantStatus(t, "connect", finish(t, "connect", connected), ErrConnectionRefused)
			})
		}
	}
}

// One event ends all notifications armed for it, also on a shared receive queue.
func TestArmedTwice(t *testing.T) {
	t.Parallel()
	n := newNotifyRig(t, commonRig(t))
	one, two, errs := arm(t, n.client, NotifyAny), arm(t, n.client, NotifySolicited), start(func() error {
		return n.client.cq.Notify(t.Context(), NotifyErrors)
	})
	eventually(t, "all wait", func() bool { return n.client.cq.cq.Waiting() == 3 })
	wantStatus(t, "before the end", one.Err(), StatusSuccess)
	n.plain(0)
	must(t, armedDone(t, "one", one))
	must(t, armedDone(t, "two", two))
	must(t, finish(t, "the call", errs))
	srq, err := commonRig(t).a.CreateSharedReceiveQueue(4, 1, 2)
	must(t, err)
	t.Cleanup(func() { must(t, srq.Close()) })
	shared, err := srq.Arm()
	must(t, err)
	must(t, armedDone(t, "fewer receives than the threshold", shared))
}

// If the context of Wait ends, the notification stays armed. If several goroutines wait, the next one becomes the sleeper, and all
// are notified.
func TestArmedAndWaitedForAgain(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).connect(t, 4096)
	must(t, server.qp.Receive(1, nil))
	n := arm(t, server, NotifyAny)
	ctx, cancel := context.WithCancel(t.Context())
	first := start(func() error { return n.Wait(ctx) })
	eventually(t, "somebody sleeps", func() bool { return len(n.sleeper) == 1 })
	var others []<-chan error
	for range 4 {
		others = append(others, start(func() error { return n.Wait(t.Context()) }))
	}
	cancel()
	err := finish(t, "first", first)
	wantStatus(t, "first", err, ErrCanceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not say that the context ended", err)
	}
	wantStatus(t, "a context that ended before", n.Wait(ctx), ErrCanceled)
	if server.cq.cq.Waiting() != 1 {
		t.Fatal("not armed any more")
	}
	must(t, client.qp.Send(1, nil, 0))
	for _, other := range others {
		must(t, finish(t, "other", other))
	}
	must(t, n.Wait(ctx)) // a notification that has ended returns at once
}

// If the context of a Wait ends too late for it, no other Wait ends.
func TestArmedWaitOutlivesInterrupts(t *testing.T) {
	t.Parallel()
	client, server := commonRig(t).connect(t, 4096)
	must(t, server.qp.Receive(1, nil))
	n := arm(t, server, NotifyAny)
	n.wait.Interrupt()
	done := make(chan struct{})
	asleep := start(func() error {
		defer close(done)
		if err := n.Wait(t.Context()); err != nil {
			return err
		}
		if !n.over() {
			return errors.New("Wait returned before the end")
		}
		return nil
	})
	eventually(t, "somebody sleeps", func() bool {
		select {
		case <-done:
			return true
		default:
			return len(n.sleeper) == 1
		}
	})
	must(t, client.qp.Send(1, nil, 0))
	must(t, finish(t, "wait", asleep))
}

// Cancel ends exactly one notification, and leaves nothing behind.
func TestArmedAndCanceled(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := r.connect(t, 4096)
	for range 100 {
		n := arm(t, client, NotifyAny)
		n.Cancel()
		wantStatus(t, "canceled", armedWait(t, "canceled", n), ErrCanceled)
	}
	one, two := arm(t, client, NotifyErrors), arm(t, client, NotifyAny)
	asleep := start(func() error { return one.Wait(t.Context()) })
	one.Cancel()
	wantStatus(t, "one", finish(t, "one", asleep), ErrCanceled)
	one.Cancel()
	must(t, client.qp.Write(1, nil, 0, 0, 0))
	must(t, armedDone(t, "two", two))
	two.Cancel()
	must(t, two.Err())
	if left := client.cq.cq.Waiting(); left != 0 {
		t.Errorf("%d notifications wait", left)
	}
	gone := armDisconnect(t, server)
	gone.Cancel()
	wantStatus(t, "disconnect", armedDone(t, "disconnect", gone), ErrCanceled)
	if left := server.ctr.notifications(); left != 0 {
		t.Errorf("%d notifications of the end wait", left)
	}
	l, _ := listen(t, r.b, 0)
	e := newEnd(t, r.b, 64)
	old, err := l.ArmConnectionRequest(e.ctr)
	must(t, err)
	_, err = l.ArmConnectionRequest(e.ctr)
	wantStatus(t, "a connector that waits", err, ErrConnectionActive)
	old.Cancel()
	wantStatus(t, "request", armedDone(t, "request", old), ErrCanceled)
	again, err := l.ArmConnectionRequest(e.ctr)
	must(t, err)
	old.Cancel() // does not affect its successor
	must(t, again.Err())
	l.CancelOverlappedRequests()
	wantStatus(t, "request", armedDone(t, "request", again), ErrCanceled)
}

// The close of an object or an adapter ends armed notifications, whether or not a goroutine waits. Nothing can be armed afterwards.
func TestArmedAndClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	_, server := r.connect(t, 4096)
	queue, over := arm(t, client, NotifyAny), armDisconnect(t, client)
	must(t, client.cq.Close())
	must(t, client.ctr.Close())
	wantStatus(t, "queue", armedWait(t, "queue", queue), ErrCanceled)
	wantStatus(t, "connector", armedDone(t, "connector", over), ErrCanceled)
	_, err := client.ctr.ArmDisconnect()
	wantStatus(t, "closed connector", err, ErrConnectionInvalid)
	l, at := listen(t, r.b, 0)
	other := newEnd(t, r.b, 64)
	request, err := l.ArmConnectionRequest(other.ctr)
	must(t, err)
	must(t, l.Close())
	wantStatus(t, "listener", armedDone(t, "listener", request), ErrCanceled)
	_, err = l.ArmConnectionRequest(other.ctr)
	wantStatus(t, "closed listener", err, ErrInvalidDeviceState)
	_, err = l.ArmConnectionRequest(nil)
	wantStatus(t, "no connector", err, ErrInvalidParameterN(1))
	_, err = other.cq.Arm(3)
	wantStatus(t, "unknown type", err, ErrInvalidParameterN(1))

	l, err = r.b.CreateListener()
	must(t, err)
	must(t, l.Bind(netip.AddrPortFrom(at.Addr(), 0)))
	must(t, l.Listen(0))
	request, err = l.ArmConnectionRequest(other.ctr)
	must(t, err)
	queue, unattended, over := arm(t, server, NotifyAny), arm(t, server, NotifyErrors), armDisconnect(t, server)
	asleep := []<-chan error{
		start(func() error { return queue.Wait(t.Context()) }),
		start(func() error { return over.Wait(t.Context()) }),
		start(func() error { return armedDone(t, "request", request) }),
	}
	must(t, r.b.Close())
	for _, s := range asleep {
		wantStatus(t, "sleeper", finish(t, "sleeper", s), ErrDeviceRemoved)
	}
	wantStatus(t, "unattended", unattended.Err(), ErrDeviceRemoved)
	_, err = server.cq.Arm(NotifyAny)
	wantStatus(t, "queue of a closed adapter", err, ErrDeviceRemoved)
	_, err = server.ctr.ArmDisconnect()
	wantStatus(t, "connector of a closed adapter", err, ErrDeviceRemoved)
	_, err = l.ArmConnectionRequest(other.ctr)
	wantStatus(t, "listener of a closed adapter", err, ErrDeviceRemoved)
}
