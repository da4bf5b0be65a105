package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/watch"
)

// A packet keeps the engine whose link it came from on all its ways, and its frames go back by index.
func TestOutboxKeepsWhereFramesBelong(t *testing.T) {
	const several = 3
	first, second := &Engine{index: 0}, &Engine{index: 1}
	var o outbox
	p := &RxPacket{N: 2}
	p.Frags[0].ID, p.Frags[1].ID = 7, 8
	o.pass(p, first, 1, several)
	if !o.pending || len(o.packets[1]) != 1 || o.packets[1][0].Origin != numberOf(first) || p.Origin != 0 {
		t.Fatalf("%+v", o.packets)
	}
	o = outbox{}
	p.Origin = numberOf(first)
	o.pass(p, second, 2, several) // the connection moved on
	if o.packets[2][0].Origin != numberOf(first) {
		t.Error("a packet that goes on belongs to another link")
	}
	o.giveBack(p, 0, several)
	o.giveBack(p, 0, several)
	if got := o.frames[0]; len(got) != 4 || got[0] != 7 || got[3] != 8 || len(o.frames[1])+len(o.frames[2]) != 0 {
		t.Errorf("%v go back", o.frames)
	}
}

// asleep is a waiter that counts how often it is woken.
type asleep struct{ woken int }

func (a *asleep) Wait(clock.Time, bool) {}
func (a *asleep) Wake()                 { a.woken++ }
func (a *asleep) Rouse()                { a.woken++ }
func (a *asleep) Shorten(clock.Time)    { a.woken++ }
func (a *asleep) Pause(time.Duration)   {}
func (a *asleep) Remind(time.Duration)  {}

// What is left in an inbox comes out once, in order, within its bounds, and wakes who sleeps.
func TestInbox(t *testing.T) {
	waiter := &asleep{}
	sleeper := watch.NewSleeper(waiter)
	b := inbox{sleeper: &sleeper}
	b.sleeper.LieDown(clock.Never)
	if b.called() {
		t.Error("an empty inbox calls")
	}
	first, second := &QP{}, &QP{}
	b.ring(first)
	b.ring(second)
	if !b.called() || !b.rung() || waiter.woken != 0 {
		t.Error("a doorbell is not heard, or wakes by itself")
	}
	if qp := b.doorbells.Swap(nil); qp != second || qp.nextRung != first || first.nextRung != nil {
		t.Error("the doorbell list is not what was rung")
	}
	if n := b.hand(make([]RxPacket, inboxPackets+3)); n != inboxPackets || b.hand(make([]RxPacket, 1)) != 0 {
		t.Errorf("%d packets were taken", n)
	}
	b.giveBack([]uint64{7, 8})
	b.alert()
	b.alert()
	if waiter.woken != 1 || !b.called() || b.rung() {
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
	if len(packets) != inboxPackets || !slices.Equal(frames, []uint64{7, 8}) || b.called() {
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

// What engines have for each other arrives where it is for; what there is no room for is refused, packet by packet.
func TestOutboxSends(t *testing.T) {
	engines := []*Engine{{index: 0}, {index: 1}, {index: 2}}
	var o outbox
	for i := range inboxPackets + 2 {
		o.pass(&RxPacket{Len: i}, engines[0], 2, len(engines))
	}
	p := &RxPacket{N: 1}
	o.giveBack(p, 1, len(engines))
	var refused []int
	o.send(engines, func(p *RxPacket) { refused = append(refused, p.Len) })
	if !slices.Equal(refused, []int{inboxPackets, inboxPackets + 1}) || o.pending {
		t.Errorf("%v were refused", refused)
	}
	for i, want := range [][2]int{{0, 0}, {0, 1}, {inboxPackets, 0}} {
		called := engines[i].Called()
		packets, frames := engines[i].inbox.open()
		if got := [2]int{len(packets), len(frames)}; got != want || called != (got != [2]int{}) {
			t.Errorf("engine %d has %v, want %v", i, got, want)
		}
	}
	o.send(engines, nil)
	if engines[1].inbox.waiting.Load() {
		t.Error("nothing was sent, and yet an engine is called")
	}
}

// A packet of a third engine that is refused gives its frames back in the same batch, and nothing is left to send.
func TestRefusedPacketOfAThirdEngine(t *testing.T) {
	engines := []*Engine{{index: 0}, {index: 1}, {index: 2}}
	var o outbox
	for range inboxPackets + 1 {
		o.pass(&RxPacket{N: 1, Origin: numberOf(engines[2])}, engines[0], 1, len(engines))
	}
	o.send(engines, func(p *RxPacket) { o.giveBack(p, int(p.Origin-1), len(engines)) })
	if _, frames := engines[2].inbox.open(); len(frames) != 1 {
		t.Errorf("%d frames came back", len(frames))
	}
	if o.pending {
		t.Error("there is something to send, and nothing was left")
	}
}

// Calls that were taken before a call of the owner leave an inbox that says that it is empty; packets and frames stay, and are told of.
func TestCallsAreTakenAlone(t *testing.T) {
	var b inbox
	b.call(func(*Engine) {})
	if b.takeCalls(); b.called() {
		t.Error("an empty inbox calls")
	}
	b.giveBack([]uint64{7})
	b.alert()
	b.call(func(*Engine) {})
	if b.takeCalls(); !b.called() {
		t.Error("frames are in an inbox that says that it is empty")
	}
}
