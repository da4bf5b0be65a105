package ndk

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/verbs"
)

// If a request arrives while the adapter has its maximum of connectors, it is refused and the application is not called. Later
// requests are announced.
func TestRequestBeyondTheLastConnector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := newEnd(t, r.a, 64)
	_, at, requests := listens(t, r.b)
	objects := &r.b.verbs.Objects
	used := objects.Used(verbs.ObjectConnector)
	for objects.Take(verbs.ObjectConnector) {
	}
	first := client.dial(t, at)
	want(t, "connect", first.inline, StatusPending)
	select {
	case s := <-first.done:
		want(t, "connect", s, StatusConnectionRefused)
	case c := <-requests:
		t.Error("it was announced")
		closed(t, c.Close)
		first.finish(t)
	}
	if objects.Take(verbs.ObjectConnector) {
		t.Error("an unused connector was freed")
	}
	for objects.Used(verbs.ObjectConnector) > used {
		objects.Give(verbs.ObjectConnector)
	}
	again := client.dial(t, at)
	closed(t, receive(t, "connect event", requests).Close)
	want(t, "connect again", again.finish(t), StatusConnectionRefused)
}
