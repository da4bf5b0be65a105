package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// asleep is a waiter that counts how often it is woken.
type asleep struct{ woken int }

func (a *asleep) Wait(clock.Time, bool) {}
func (a *asleep) Wake()                 { a.woken++ }
func (a *asleep) Rouse()                { a.woken++ }
func (a *asleep) Shorten(clock.Time)    { a.woken++ }
func (a *asleep) Pause(time.Duration)   {}
func (a *asleep) Remind(time.Duration)  {}

// Everything put into an inbox comes out once, in order and within the inbox's limits. It wakes a sleeping owner.
func TestInbox(t *testing.T) {
	waiter := &asleep{}
	sleeper := watch.NewSleeper(waiter)
	e := &Engine{inbox: inbox{sleeper: &sleeper}}
	b := &e.inbox
	b.sleeper.LieDown(clock.Never)
	if e.Called() {
		t.Error("an empty inbox calls")
	}
	first, second := &QP{}, &QP{}
	b.ring(first)
	b.ring(second)
	if !e.Called() || !b.rung() || waiter.woken != 0 {
		t.Error("a doorbell is lost, or wakes without a ring")
	}
	if qp := b.doorbells.Swap(nil); qp != second || qp.nextRung != first || first.nextRung != nil {
		t.Error("the doorbell list differs from what was rung")
	}
	if n := b.Hand(make([]RxPacket, inboxPackets+3)); n != inboxPackets || b.Hand(make([]RxPacket, 1)) != 0 {
		t.Errorf("%d packets were taken", n)
	}
	b.GiveBack([]uint64{7, 8})
	b.Alert()
	b.Alert()
	if waiter.woken != 1 || !e.Called() || b.rung() {
		t.Errorf("woken %d times", waiter.woken)
	}
	var ran []int
	for i := range inboxCalls {
		if !b.ask(func(*Engine) { ran = append(ran, i) }) {
			t.Fatalf("call %d was refused", i)
		}
	}
	if b.ask(func(*Engine) {}) {
		t.Error("strangers cause calls without a bound")
	}
	b.call(func(*Engine) { ran = append(ran, -1) })
	packets, frames := b.open()
	if len(packets) != inboxPackets || !slices.Equal(frames, []uint64{7, 8}) || e.Called() {
		t.Errorf("%d packets and frames %v came out", len(packets), frames)
	}
	for _, f := range b.takeCalls() {
		f(nil)
	}
	if len(ran) != inboxCalls+1 || ran[0] != 0 || ran[inboxCalls] != -1 {
		t.Errorf("%d calls", len(ran))
	}
	if packets, frames := b.open(); len(packets)+len(frames)+len(b.takeCalls()) != 0 {
		t.Error("something came out twice")
	}
}

// If the owner takes only the calls of an inbox, packets and frames stay in it, and the inbox still reports them.
func TestCallsAreTakenAlone(t *testing.T) {
	e := new(Engine)
	b := &e.inbox
	b.call(func(*Engine) {})
	if b.takeCalls(); e.Called() {
		t.Error("an empty inbox calls")
	}
	b.GiveBack([]uint64{7})
	b.Alert()
	b.call(func(*Engine) {})
	if b.takeCalls(); !e.Called() {
		t.Error("frames are in an inbox that reports it is empty")
	}
}
