package nd

import (
	"fmt"
	"testing"
)

// notifyRig is a connection whose client's completion queue is under test.
type notifyRig struct {
	t              *testing.T
	client, server *end
	next           uint64
}

func newNotifyRig(t *testing.T, r *rig) *notifyRig {
	client, server := r.connect(t, 4096)
	return &notifyRig{t: t, client: client, server: server}
}

// notify starts a Notify and waits until it either waits or has returned.
func (n *notifyRig) notify(what NotifyType) <-chan error {
	n.t.Helper()
	before := n.client.cq.cq.Waiting()
	started := make(chan struct{})
	var result error
	done := make(chan error, 1)
	go func() {
		result = n.client.cq.Notify(n.t.Context(), what)
		done <- result
		close(started)
	}()
	eventually(n.t, "notify", func() bool {
		select {
		case <-started:
			return true
		default:
			return n.client.cq.cq.Waiting() > before
		}
	})
	return done
}

// plain makes one successful result without a solicited Send.
func (n *notifyRig) plain(flags OpFlags) {
	n.t.Helper()
	posted := n.client.cq.cq.Queued()
	must(n.t, n.client.qp.Write(n.next, nil, 0, 0, flags))
	n.next++
	if flags&OpSilentSuccess == 0 {
		eventually(n.t, "result", func() bool { return n.client.cq.cq.Queued() > posted })
	} else {
		eventually(n.t, "silent success", n.idle)
	}
	n.awaitTurn()
}

func (n *notifyRig) idle() bool { return n.client.qp.qp.Outstanding() == 0 }

// arrive makes the result of a receive.
func (n *notifyRig) arrive(flags OpFlags) {
	n.t.Helper()
	posted := n.client.cq.cq.Queued()
	must(n.t, n.client.qp.Receive(100, nil))
	must(n.t, n.server.qp.Send(1, nil, flags))
	eventually(n.t, "result", func() bool { return n.client.cq.cq.Queued() > posted })
	n.awaitTurn()
}

// awaitTurn waits until the engine's poll is over.
func (n *notifyRig) awaitTurn() { n.client.cq.adapter.sync() }

func (n *notifyRig) fetch(want int) {
	n.t.Helper()
	var res [16]Result
	if got := n.client.cq.GetResults(res[:]); got != want {
		n.t.Fatalf("fetched %d results, want %d", got, want)
	}
}

func (n *notifyRig) pending(what string, done <-chan error) {
	n.t.Helper()
	n.awaitTurn()
	select {
	case err := <-done:
		n.t.Fatalf("%s finished with %v, want it pending", what, err)
	default:
	}
	if n.client.cq.cq.Waiting() == 0 {
		n.t.Fatalf("%s does not wait", what)
	}
}

func (n *notifyRig) finished(what string, done <-chan error, want Status) {
	n.t.Helper()
	wantStatus(n.t, what, finish(n.t, what, done), want)
}

// notifyRules are N01 to N15 of the specification, section 14.
var notifyRules = []struct {
	name string
	run  func(n *notifyRig)
}{
	{"N01 empty, then a result", func(n *notifyRig) {
		done := n.notify(NotifyAny)
		n.pending("notify", done)
		n.plain(0)
		n.finished("notify", done, StatusSuccess)
	}},
	{"N02 a result is there", func(n *notifyRig) {
		n.plain(0)
		n.finished("notify", n.notify(NotifyAny), StatusSuccess)
	}},
	{"N03 seen and not fetched", func(n *notifyRig) {
		done := n.notify(NotifyAny)
		n.plain(0)
		n.finished("first", done, StatusSuccess)
		again := n.notify(NotifyAny)
		n.pending("second", again)
		n.plain(0)
		n.finished("second", again, StatusSuccess)
		n.fetch(2)
	}},
	{"N04 fetched", func(n *notifyRig) {
		n.plain(0)
		n.finished("first", n.notify(NotifyAny), StatusSuccess)
		n.fetch(1)
		n.pending("second", n.notify(NotifyAny))
	}},
	{"N05 two wait for one result", func(n *notifyRig) {
		one, two := n.notify(NotifyAny), n.notify(NotifyAny)
		n.plain(0)
		n.finished("first", one, StatusSuccess)
		n.finished("second", two, StatusSuccess)
	}},
	{"N06 solicited", func(n *notifyRig) {
		done := n.notify(NotifySolicited)
		n.plain(0)
		n.arrive(0)
		n.pending("notify", done)
		n.arrive(OpSolicit)
		n.finished("notify", done, StatusSuccess)
	}},
	{"N06 solicited is there", func(n *notifyRig) {
		n.arrive(OpSolicit)
		n.plain(0)
		n.finished("notify", n.notify(NotifySolicited), StatusSuccess)
		n.pending("again", n.notify(NotifySolicited))
	}},
	{"N07 solicited, flushed", func(n *notifyRig) {
		done := n.notify(NotifySolicited)
		must(n.t, n.client.qp.Receive(1, nil))
		n.client.qp.Flush()
		n.finished("notify", done, StatusSuccess)
	}},
	{"N07 solicited, failed", func(n *notifyRig) {
		done := n.notify(NotifySolicited)
		must(n.t, n.client.qp.Write(1, []SGE{{Buffer: make([]byte, 1)}}, 0, 0, 0))
		n.finished("notify", done, StatusSuccess)
	}},
	{"N08 solicited, then any", func(n *notifyRig) {
		one, two := n.notify(NotifySolicited), n.notify(NotifyAny)
		n.plain(0)
		n.finished("solicited", one, StatusSuccess)
		n.finished("any", two, StatusSuccess)
	}},
	{"N09 any, then solicited", func(n *notifyRig) {
		one, two := n.notify(NotifyAny), n.notify(NotifySolicited)
		n.plain(0)
		n.finished("any", one, StatusSuccess)
		n.finished("solicited", two, StatusSuccess)
	}},
	{"N10 errors", func(n *notifyRig) {
		done := n.notify(NotifyErrors)
		n.plain(0)
		n.arrive(OpSolicit)
		n.pending("notify", done)
	}},
	{"N12 two on one queue, canceled", func(n *notifyRig) {
		one, two := n.notify(NotifyAny), n.notify(NotifyErrors)
		n.client.cq.CancelOverlappedRequests()
		n.finished("first", one, ErrCanceled)
		n.finished("second", two, ErrCanceled)
		n.plain(0) // the notification counts no result as seen
		n.finished("after", n.notify(NotifyAny), StatusSuccess)
	}},
	{"N13 closed", func(n *notifyRig) {
		done := n.notify(NotifyAny)
		must(n.t, n.client.cq.Close())
		n.finished("notify", done, ErrCanceled)
	}},
	{"N14 silent success", func(n *notifyRig) {
		done := n.notify(NotifyAny)
		n.plain(OpSilentSuccess)
		n.pending("notify", done)
	}},
	{"N15 flush of two receives, armed", func(n *notifyRig) {
		done := n.notify(NotifyAny)
		must(n.t, n.client.qp.Receive(1, nil))
		must(n.t, n.client.qp.Receive(2, nil))
		n.client.qp.Flush()
		n.finished("notify", done, StatusSuccess)
		n.fetch(2)
	}},
	{"N15 flush of two receives, armed later", func(n *notifyRig) {
		must(n.t, n.client.qp.Receive(1, nil))
		must(n.t, n.client.qp.Receive(2, nil))
		n.client.qp.Flush()
		n.finished("notify", n.notify(NotifyAny), StatusSuccess)
		n.fetch(2)
		n.pending("again", n.notify(NotifyAny))
	}},
	{"rule 1: the higher level stays", func(n *notifyRig) {
		one, two := n.notify(NotifyAny), n.notify(NotifyErrors)
		n.plain(0)
		n.finished("any", one, StatusSuccess)
		n.finished("errors", two, StatusSuccess)
	}},
}

func TestNotifyRules(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, c := range notifyRules {
		t.Run(c.name, func(t *testing.T) { c.run(newNotifyRig(t, r)) })
	}
	e := newEnd(t, r.a, 64)
	wantStatus(t, "unknown type", e.cq.Notify(t.Context(), 3), ErrInvalidParameterN(1))
}

// N11: notifications of different queues are independent, and end in the order of their cancelation.
func TestNotifyCancelOrder(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	one, two := newNotifyRig(t, r), newNotifyRig(t, r)
	first, second := one.notify(NotifyAny), two.notify(NotifyAny)
	two.client.cq.CancelOverlappedRequests()
	two.finished("second", second, ErrCanceled)
	one.pending("first", first)
	one.client.cq.CancelOverlappedRequests()
	one.finished("first", first, ErrCanceled)
}

// An overrun ends the queue and the connections that report to it. Results in the queue can still be fetched.
func TestCompletionQueueOverrun(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	client, server := newEnd(t, r.a, 4096), newEnd(t, r.b, 4096)
	var err error
	client.cq, err = r.a.CreateCompletionQueue(4)
	must(t, err)
	client.qp, err = r.a.CreateQueuePair(QueuePairConfig{ReceiveCQ: client.cq, InitiatorCQ: client.cq, InitiatorDepth: 64})
	must(t, err)
	r.join(t, client, server)
	must(t, server.qp.Receive(9, nil))
	done := start(func() error { return client.cq.Notify(t.Context(), NotifyErrors) })
	eventually(t, "notify waits", func() bool { return client.cq.cq.Waiting() == 1 })
	for i := range 6 {
		must(t, client.qp.Write(uint64(i), nil, 0, 0, 0))
	}
	wantStatus(t, "waiting notify", finish(t, "notify", done), ErrBufferOverflow)
	server.wantResult(t, 9, RequestReceive, ErrCanceled)
	wantStatus(t, "later notify", client.cq.Notify(t.Context(), NotifyAny), ErrBufferOverflow)
	var res [16]Result
	if n := client.cq.GetResults(res[:]); n != 4 {
		t.Errorf("%d results can be fetched, want the 4 that fit", n)
	}
	for i, r := range res[:4] {
		if r.RequestID != uint64(i) || r.Status != StatusSuccess {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	must(t, client.qp.Write(9, nil, 0, 0, 0)) // Error state: the post succeeds, and no result is reported
	if n := client.cq.GetResults(res[:]); n != 0 {
		t.Errorf("%d results from a dead queue", n)
	}
}

func TestCreateRefused(t *testing.T) {
	t.Parallel()
	r := commonRig(t)
	for _, c := range []struct {
		depth int
		want  Status
	}{{0, ErrInvalidParameterN(3)}, {-1, ErrInvalidParameterN(3)}, {1<<18 + 1, ErrInvalidParameterN(3)}, {1, StatusSuccess}, {1 << 18, StatusSuccess}} {
		_, err := r.a.CreateCompletionQueue(c.depth)
		wantStatus(t, fmt.Sprint("completion queue of ", c.depth), err, c.want)
	}
	cq, err := r.a.CreateCompletionQueue(1)
	must(t, err)
	foreign, err := r.b.CreateCompletionQueue(1)
	must(t, err)
	info, err := r.a.Query()
	must(t, err)
	for _, c := range []struct {
		name string
		cfg  QueuePairConfig
		want Status
	}{
		{"no receive queue", QueuePairConfig{InitiatorCQ: cq}, ErrInvalidParameterN(2)},
		{"foreign receive queue", QueuePairConfig{ReceiveCQ: foreign, InitiatorCQ: cq}, ErrInvalidParameterN(2)},
		{"no initiator queue", QueuePairConfig{ReceiveCQ: cq}, ErrInvalidParameterN(3)},
		{"foreign initiator queue", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: foreign}, ErrInvalidParameterN(3)},
		{"receive depth", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: info.MaxReceiveQueueDepth + 1}, ErrInvalidParameterN(5)},
		{"initiator depth", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, InitiatorDepth: info.MaxInitiatorQueueDepth + 1}, ErrInvalidParameterN(6)},
		{"receive entries", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, MaxReceiveSGE: info.MaxReceiveSGE + 1}, ErrInvalidParameterN(7)},
		{"initiator entries", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, MaxInitiatorSGE: -1}, ErrInvalidParameterN(8)},
		{"inline", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, InlineSize: info.MaxInlineDataSize + 1}, ErrInvalidParameterN(9)},
		{"all zero", QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq}, StatusSuccess},
		{"all maximal", QueuePairConfig{
			ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: info.MaxReceiveQueueDepth, InitiatorDepth: info.MaxInitiatorQueueDepth,
			MaxReceiveSGE: info.MaxReceiveSGE, MaxInitiatorSGE: info.MaxInitiatorSGE, InlineSize: info.MaxInlineDataSize,
		}, StatusSuccess},
	} {
		_, err := r.a.CreateQueuePair(c.cfg)
		wantStatus(t, c.name, err, c.want)
	}
}
