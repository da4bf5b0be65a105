package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// signals feeds a controller with round trips, a batch each.
func signals(cc *congestion, packets int, base time.Duration, delays ...time.Duration) {
	for _, d := range delays {
		now := cc.limitedAt.Add(d)
		cc.limitedAt = now
		(&delayControl{}).acked(cc, &ackBatch{now: now, packets: packets, delay: d, base: base, smoothed: d, round: d})
		cc.settle(d)
	}
}

func newCongestion() *congestion {
	cc := new(congestion)
	cc.reset(&delayControl{})
	cc.limitedAt = clock.Time(time.Second)
	return cc
}

// Slow start doubles until the delay is over the target, then a packet is added per round trip.
func TestWindowGrows(t *testing.T) {
	const base = 100 * time.Microsecond
	cc := newCongestion()
	signals(cc, 16, base, base)
	if cc.fabric != 32*windowUnit {
		t.Errorf("%d packets after the first round trip", cc.fabric/windowUnit)
	}
	cc.threshold = cc.fabric
	signals(cc, 32, base, base)
	if d := cc.fabric - 33*windowUnit; d < -windowUnit/8 || d > windowUnit/8 {
		t.Errorf("%d/65536 packets after a round trip of avoidance", cc.fabric)
	}
	cc.limitedAt = 0
	before := cc.fabric
	(&delayControl{}).acked(cc, &ackBatch{now: clock.Time(5 * time.Second), packets: 8, delay: base, base: base, smoothed: base, round: base})
	if cc.fabric != before {
		t.Error("a window that held nothing back grew")
	}
}

// The decrease is 0.8 of how far the delay is over the target, at most half, and at most once per round trip.
func TestWindowShrinks(t *testing.T) {
	const base = 100 * time.Microsecond
	for _, over := range []time.Duration{10, 20, 100, 400} {
		cc := newCongestion()
		cc.fabric = 4 * windowUnit
		want := target(base, 0, scale(cc.fabric))
		d := want * (100 + over) / 100
		signals(cc, 1, base, d)
		keep := max(1000-800*int(d-want)/int(d), 500)
		if got := cc.fabric * 1000 / (4 * windowUnit); got < keep-2 || got > keep+2 {
			t.Errorf("%d %% over the target %d/1000 of the window are left, want %d", over, got, keep)
		}
		left := cc.fabric
		(&delayControl{}).acked(cc, &ackBatch{now: cc.limitedAt.Add(d / 2), packets: 1, delay: d, base: base, smoothed: d, round: d})
		if cc.fabric != left {
			t.Error("it shrank twice in a round trip")
		}
	}
}

// One round trip of milliseconds is somebody off its core and does not count as much as it is long.
func TestOneLongRoundTripIsNoQueue(t *testing.T) {
	const base = 20 * time.Microsecond
	cc := newCongestion()
	cc.fabric = 64 * windowUnit
	signals(cc, 8, base, base, base, base, base, base, base, base, 5*time.Millisecond)
	if cc.fabric < 64*windowUnit {
		t.Errorf("%d packets are left of 64", cc.fabric/windowUnit)
	}
}

// Small windows aim at longer queues.
// Steps below a packet do not depend on the window, so that a decrease in proportion to it makes shares equal.
func TestSmallWindowsGrowAlike(t *testing.T) {
	for _, from := range []int{minFabric, windowUnit / 2, windowUnit - 1} {
		cc := congestion{fabric: from}
		cc.grow(1)
		if cc.fabric != from+windowUnit {
			t.Errorf("one acknowledgement makes %d of %d", cc.fabric, from)
		}
	}
}

func TestFlowScaling(t *testing.T) {
	last := time.Hour
	for w := windowUnit / 16; w <= maxFabric; w *= 2 {
		now := target(100, 0, scale(w))
		if now > last || now < 100+minQueueing || now > 100+2*minQueueing {
			t.Errorf("window %d/65536: target %v, of a smaller window %v", w, now, last)
		}
		last = now
	}
	for v := range 1 << 12 {
		if r := isqrt(v + 1); (r-1)*(r-1) > v+1 || (r+1)*(r+1) <= v+1 {
			t.Fatalf("root of %d: %d", v+1, r)
		}
	}
}

// Loss halves the window when there is a queue, or when it is heavy; otherwise the window gives up what was lost.
func TestLossAndTheWindow(t *testing.T) {
	for _, x := range []struct {
		delay, lost, good, want int
	}{{50, 1, 99, 99}, {50, 20, 80, 50}, {500, 1, 99, 50}} {
		cc := newCongestion()
		cc.fabric = 100 * windowUnit
		cc.signal = delaySignal{delay: time.Duration(x.delay) * time.Microsecond, target: 100 * time.Microsecond}
		(&delayControl{}).lost(cc, x.lost, x.good)
		if got := (cc.fabric + windowUnit/2) / windowUnit; got != x.want {
			t.Errorf("%+v: window %d", x, got)
		}
	}
}

func TestTimeOutAndUndo(t *testing.T) {
	cc := newCongestion()
	cc.fabric = 40 * windowUnit
	(&delayControl{}).timedOut(cc)
	(&delayControl{}).timedOut(cc)
	cc.settle(0)
	if cc.window != 1 || cc.threshold != 20*windowUnit {
		t.Errorf("window %d, slow start to %d", cc.window, cc.threshold/windowUnit)
	}
	if !cc.undo() || cc.window != 40 || cc.undo() {
		t.Errorf("window %d after the undo", cc.window)
	}
}

// The receiver's load byte: above 128 the window shrinks in proportion, below it grows by a packet, once per round trip.
func TestEndpointWindow(t *testing.T) {
	var w endpointWindow
	w.reset()
	now := clock.Time(time.Second)
	for _, x := range []struct {
		load uint8
		want int
	}{{0, 256}, {128, 256}, {255, 129}, {192, 97}, {128, 98}, {0, 99}} {
		now += 1000
		w.heard(now, x.load, 100)
		w.heard(now, x.load, 100)
		if got := (w.window + windowUnit - 1) / windowUnit; got != x.want {
			t.Errorf("load %d: window %d, want %d", x.load, got, x.want)
		}
	}
	for range 20 {
		now += 1000
		w.heard(now, 255, 100)
	}
	if w.window != minEndpt {
		t.Errorf("the least window is %d", w.window)
	}
}

// A receiver whose pool of held packets fills says so, and the sender slows down.
func TestLoadIsReported(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.eng[1].freeHeld = p.eng[1].freeHeld[:len(p.eng[1].held)/5]
	for range 4 {
		p.post(0, p.write(0, 0, 60*1344))
		p.pass(time.Millisecond)
	}
	if w := p.conn(0).cc.endpoint.window; w == maxFabric {
		t.Error("the sender did not hear of the load")
	}
	p.eng[1].freeHeld = p.eng[1].freeHeld[:len(p.eng[1].held)/5]
}

// pinned is a controller whose window never changes.
type pinned struct{ fabric int }

func (f pinned) start(cc *congestion)              { cc.fabric = f.fabric }
func (f pinned) acked(cc *congestion, _ *ackBatch) { f.start(cc) }
func (f pinned) lost(cc *congestion, _, _ int)     { f.start(cc) }
func (f pinned) timedOut(cc *congestion)           { f.start(cc) }

// A window below one packet is served by time.
func TestPacing(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 1344)) // a round trip to learn from
	p.settle()
	c := p.conn(0)
	c.rtt.smoothed = 100 * time.Microsecond
	p.eng[0].controller = pinned{windowUnit / 4}
	p.eng[0].controller.start(&c.cc)
	c.cc.settle(c.rtt.smoothed)
	if c.cc.window != 1 || c.cc.gap != 400*time.Microsecond {
		t.Fatalf("window %d, gap %v", c.cc.window, c.cc.gap)
	}
	sent := []clock.Time{}
	p.link[1].mangle = func(b []byte) bool {
		if b[1] != 0 {
			sent = append(sent, p.now)
		}
		return true
	}
	p.post(0, p.write(0, 0, 5*1344))
	p.pass(10 * time.Millisecond)
	if len(sent) != 5 {
		t.Fatalf("%d packets", len(sent))
	}
	for i := 1; i < len(sent); i++ {
		if d := sent[i].Sub(sent[i-1]); d < 20*time.Microsecond {
			t.Errorf("packet %d left %v after the one before", i, d)
		}
	}
	if s := p.eng[0].Stats(); s.Timeouts != 0 {
		t.Errorf("%d time-outs", s.Timeouts)
	}
}

// Nobody looked for 5 ms: the echo says so, and the sender takes no delay from it (PROTOCOL §3.2).
func TestAwayPeer(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.post(0, p.write(0, 0, 100))
	p.settle()
	before := p.conn(0).cc.signal.delay
	p.eng[1].turns.Watch(false)
	p.post(0, p.write(0, 0, 100))
	p.now += 1000
	p.eng[0].Run(p.now)
	p.eng[1].Run(p.now)
	p.post(0, p.write(0, 0, 10*1344)) // enough to be acknowledged at once
	p.now += 1000
	p.eng[0].Run(p.now)
	p.now += clock.Time(5 * time.Millisecond)
	away := false
	p.link[0].mangle = func(b []byte) bool {
		h, _ := wire.ParseBaseHeader(b)
		away = away || h.Flags()&wire.FlagAway != 0
		return true
	}
	p.eng[1].Run(p.now)
	p.settle()
	if !away {
		t.Error("the peer did not say that it was away")
	}
	if d := p.conn(0).cc.signal.delay; d > 2*before+10*time.Microsecond {
		t.Errorf("delay %v, before %v", d, before)
	}
}

// fixed makes both connections' windows small and constant.
func (p *pair) fixed(packets int) {
	for i := range 2 {
		p.eng[i].controller = &fixedControl{packets}
		p.conn(i).cc.reset(p.eng[i].controller)
	}
}

// READ responses and requests of one connection get the same share of a small window.
func TestResponsesAndRequestsShare(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fixed(4)
	var bytes [wire.NumSpaces]int
	p.link[1].mangle = func(b []byte) bool {
		if h, _ := wire.ParseBaseHeader(b); h.OpCount() > 0 {
			bytes[h.Space()] += int(p.conn(0).maxPacket)
		}
		return true
	}
	r := p.write(1, 1<<20, 1<<20)
	r.Kind = KindRead
	p.post(1, r)
	p.post(0, p.write(0, 0, 1<<20))
	for range 2000 {
		p.turn()
		if p.qp[0].sq.next != 0 || p.conn(0).served.next.seq != 0 {
			break // one of the two is through
		}
	}
	if a, b := bytes[0], bytes[1]; a*10 < b*8 || b*10 < a*8 || a < 100<<10 {
		t.Errorf("requests %d bytes, responses %d", a, b)
	}
	p.settle()
	p.outcomes(0, OutcomeSuccess)
	p.outcomes(1, OutcomeSuccess)
}

// What READs ask for is bounded by the window, but for the one that is always allowed.
func TestReadsAreBoundedByTheWindow(t *testing.T) {
	p := newPair(t, 1408).connect()
	p.fixed(4)
	for i := range uint32(8) {
		p.post(0, p.read(i*4096, 4096))
	}
	p.turn()
	if n := p.conn(0).reads.count; n != 2 { // 4 packets are 5,632 bytes: the second READ begins below that
		t.Errorf("%d READs are out", n)
	}
	p.settle()
	if n := len(p.results(0)); n != 8 {
		t.Errorf("%d READs done", n)
	}
	if r := p.conn(0).reads; r.bytes != 0 {
		t.Errorf("%d bytes still counted", r.bytes)
	}
}

// A path that became longer shows the same round trip again and again; a queue of many others, as long, does not.
func TestQueueOfOthersIsNoLongerPath(t *testing.T) {
	const long = 2 * time.Millisecond
	for _, c := range []struct {
		name   string
		spread time.Duration // of the round trips
		want   bool
	}{{"path", minQueueing, true}, {"queue", 8 * minQueueing, false}} {
		var s delaySignal
		found := time.Duration(0)
		for i := range 4 * stuckRounds {
			found = max(found, s.floored(long+time.Duration(i*7%16)*c.spread/15))
		}
		if (found > 0) != c.want || found > long {
			t.Errorf("%s: a least round trip of %v", c.name, found)
		}
	}
}
