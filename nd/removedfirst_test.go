package nd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
)

// Every call reports the end of the adapter before any fault of its arguments.
func TestRemovedComesBeforeArguments(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	e := newEnd(t, r.a, 64)
	must(t, r.a.Close())
	tooMany := repeat(e.mr.SGE(0, 8), provider.MaxSGE+1)
	for name, call := range map[string]func() error{
		"completion queue": func() error { _, err := r.a.CreateCompletionQueue(0); return err },
		"resize":           func() error { return e.cq.Resize(0) },
		"notify":           func() error { return e.cq.Notify(t.Context(), 99) },
		"receive":          func() error { return e.qp.Receive(1, tooMany) },
		"send":             func() error { return e.qp.Send(1, tooMany, 0) },
		"register":         func() error { return e.mr.Register(nil, 1<<20) },
		"bind":             func() error { return e.ctr.Bind(netip.AddrPort{}) },
		"accept":           func() error { return e.ctr.Accept(t.Context(), nil, ConnectParams{}) },
	} {
		wantStatus(t, name, call(), ErrDeviceRemoved)
	}
}

// Every call on an adapter whose interface is gone reports the cause, also calls that the engines refuse and calls that were
// waiting.
func TestRemovedSaysWhyEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	client, _ := r.connect(t, 4096)
	l, _ := listen(t, r.a, 0)
	notified := start(func() error { return client.ctr.NotifyDisconnect(t.Context()) })
	r.removeInterface(t)
	waited := finish(t, "notify disconnect", notified)
	cause := r.a.Removed()
	if cause == nil {
		t.Fatal("no cause was reported")
	}
	for name, err := range map[string]error{
		"notify disconnect": waited,
		"connect":           client.ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(r.addr[1], 7000), ConnectParams{}),
		"disconnect":        client.ctr.Disconnect(t.Context()),
		"reject":            client.ctr.Reject(nil),
		"listen":            l.Listen(0),
		"resize":            client.cq.Resize(5),
		"moderate":          client.cq.Moderate(1, 5),
		"register":          client.mr.Register(make([]byte, 1), 0),
		"send":              client.qp.Send(1, nil, 0),
	} {
		wantStatus(t, name, err, ErrDeviceRemoved)
		if err == nil || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("%s: %v, want %v in it", name, err, cause)
		}
	}
}

// A Receive that fails because the interface is gone has no result, because its caller may have reused the memory.
func TestRefusedReceiveGivesNoResultAfterRemoval(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	e := newEnd(t, r.a, 64)
	r.removeInterface(t)
	eventually(t, "every call is refused", r.a.closed)
	wantStatus(t, "receive", e.qp.Receive(1, []SGE{e.mr.SGE(0, 8)}), ErrDeviceRemoved)
	e.wantNoResult(t)
	e.qp.Flush()
	e.wantNoResult(t)
}

// A Send that is refused while the adapter closes has no result either, also if its queue pair does not know of the close yet.
func TestRefusedSendGivesNoResultWhileTheAdapterCloses(t *testing.T) {
	t.Parallel()
	r, _ := newLoopRig(t, DatapathUDP)
	client, _ := r.connect(t, 64)
	var closed <-chan error
	r.a.Stall(func() {
		closed = start(r.a.Close)
		eventually(t, "every call is refused", r.a.closed)
		wantStatus(t, "send", client.qp.Send(1, nil, 0), ErrDeviceRemoved)
	})
	must(t, finish(t, "close", closed))
	client.wantNoResult(t)
}
