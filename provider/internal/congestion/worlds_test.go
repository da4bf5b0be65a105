package congestion

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Flows that begin one after another reach equal shares and keep a short queue, whatever queue each found at its start.
func TestStaggeredFlowsShare(t *testing.T) {
	for _, base := range []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
		for _, n := range []int{4, 8} {
			l := newLink(1e9, base, 4e6/(1e9/8*base.Seconds()))
			for range n {
				l.add(false)
				l.pass(400 * time.Millisecond)
			}
			l.pass(2 * time.Second)
			used, jain, queue, _ := l.measure(time.Second)
			t.Logf("%d flows, %v: %.2f of the link, Jain index %.2f, queue %v", n, base, used, jain, queue)
			if used < 0.9 || jain < 0.95 || queue > 2*max(base, minQueueing) {
				t.Errorf("%d flows, %v: %.2f of the link, Jain index %.2f, queue %v", n, base, used, jain, queue)
			}
		}
	}
}

// If the buffer holds at least half of the bandwidth-delay product, the flows lose at most about 2 % of the packets.
func TestShallowBuffers(t *testing.T) {
	for _, base := range []time.Duration{200 * time.Microsecond, 10 * time.Millisecond} {
		for _, buffer := range []float64{0.5, 1, 4} {
			for _, n := range []int{1, 4} {
				l := newLink(1e9, base, buffer)
				for range n {
					l.add(false)
				}
				l.pass(max(200*time.Millisecond, 100*base))
				used, _, _, drops := l.measure(200 * time.Millisecond)
				if used < 0.85 || drops > 0.025 {
					t.Errorf("%d flows, %v, buffer of %g: %.2f of the link, %.3f lost", n, base, buffer, used, drops)
				}
			}
		}
	}
}

// Links with random loss are still used well.
func TestRandomLoss(t *testing.T) {
	for _, loss := range []float64{0.0001, 0.001, 0.01} {
		l := newLink(1e9, 200*time.Microsecond, 4)
		l.loss = loss
		l.add(false)
		l.pass(200 * time.Millisecond)
		if used, _, _, _ := l.measure(300 * time.Millisecond); used < 0.9 {
			t.Errorf("%g lost: %.2f of the link", loss, used)
		}
	}
}

// One flow fills paths of all lengths.
func TestPaths(t *testing.T) {
	for _, x := range []struct {
		rate   int
		base   time.Duration
		packet int
	}{
		{1e7, 10 * time.Millisecond, 1472},
		{1e8, 100 * time.Millisecond, 1472},
		{1e8, time.Millisecond, 8972},
		{1e9, 20 * time.Microsecond, 1472},
		{1e9, 50 * time.Millisecond, 8972},
		{1e10, 20 * time.Microsecond, 1472},
		{1e11, 100 * time.Microsecond, 8972},
	} {
		l := newLink(x.rate, x.base, 2)
		l.packet = x.packet
		l.buffer = max(l.buffer, 2*l.packet)
		l.add(false)
		l.pass(max(100*x.base, 20*time.Millisecond))
		if used, _, _, _ := l.measure(60*x.base + 10*time.Millisecond); used < 0.9 {
			t.Errorf("%d bit/s, %v, packets of %d: %.2f of the link", x.rate, x.base, x.packet, used)
		}
	}
}

// besideCubic runs a flow of ours beside a CUBIC flow, and returns the ratio of their throughputs. It returns the least and the
// most of three starts, because the phases of CUBIC's windows and our drains differ each time.
func besideCubic(base time.Duration, buffer float64, alone, settle, measured time.Duration) (least, most float64) {
	least = math.Inf(1)
	for i := range 3 {
		l := newLink(1e9, base, buffer)
		theirs := l.add(true)
		l.pass(alone + time.Duration(i)*37*time.Millisecond)
		ours := l.add(false)
		l.pass(settle)
		l.measure(measured)
		share := float64(ours.got) / float64(theirs.got)
		least, most = min(least, share), max(most, share)
	}
	return least, most
}

// A flow beside a CUBIC flow neither starves nor starves the CUBIC flow. Over a whole cycle of CUBIC it gets at least 0.3 of CUBIC's
// bandwidth in the simulation (TestWorlds).
func TestBesideCubic(t *testing.T) {
	for _, buffer := range []float64{0.5, 1} {
		if least, most := besideCubic(2*time.Millisecond, buffer, 200*time.Millisecond, 3*time.Second, 4*time.Second); least < 0.25 || most > 3 {
			t.Errorf("a buffer of %g: %.2f to %.2f of CUBIC's share", buffer, least, most)
		}
	}
}

// A flow with a window of few packets beside CUBIC detects within seconds that the queue is not its own. Single drains of so few
// packets do not show that. Otherwise the flow would get a twentieth.
func TestFewPacketsBesideCubic(t *testing.T) {
	if least, _ := besideCubic(200*time.Microsecond, 4, time.Second, 5*time.Second, 10*time.Second); least < 0.2 {
		t.Errorf("%.2f of CUBIC's share", least)
	}
}

// Many flows with windows of few packets recognize the queue as their own, although a single drain hardly changes it.
func TestManyFlowsShare(t *testing.T) {
	const base = 200 * time.Microsecond
	l := newLink(1e9, base, 4e6/(1e9/8*base.Seconds()))
	for range 32 {
		l.add(false)
		l.pass(100 * time.Millisecond)
	}
	l.pass(4 * time.Second)
	if used, jain, queue, _ := l.measure(2 * time.Second); used < 0.9 || jain < 0.95 || queue > 4*base {
		t.Errorf("%.2f of the link, Jain index %.2f, queue %v", used, jain, queue)
	}
}

// If a path becomes longer, flows still fill it, at the latest when the old minimum round trip is forgotten.
func TestPathBecomesLonger(t *testing.T) {
	l := newLink(1e9, 200*time.Microsecond, 20)
	l.add(false)
	l.pass(200 * time.Millisecond)
	l.base *= 10
	l.pass(2 * leastSpan)
	used, _, queue, _ := l.measure(500 * time.Millisecond)
	if used < 0.9 || queue > 2*l.base {
		t.Errorf("%.2f of the link, queue %v", used, queue)
	}
}

// Flows that share a queue come to drain at the same time, whenever they began. Otherwise one flow of many would never see an empty
// queue.
func TestDrainsComeTogether(t *testing.T) {
	const base, flows = 200 * time.Microsecond, 8
	l := newLink(1e9, base, 4e6/(1e9/8*base.Seconds()))
	for range flows {
		l.add(false)
		l.pass(400*time.Millisecond + time.Duration(l.random.Int64N(int64(minDrainGap))))
	}
	l.pass(time.Second)
	most, apart := 0, 0
	for range int(10 * minDrainGap / base) {
		l.pass(base)
		active := 0
		for _, f := range l.flows {
			if f.state.drain.active() {
				active++
			}
		}
		most = max(most, active)
		if active > 0 && active <= flows/2 {
			apart++
		}
	}
	if most < flows || apart > 10*10 {
		t.Errorf("%d of %d flows drain at once, and few of them for %d round trips in 10 drains", most, flows, apart)
	}
}

// Shares stay equal after all flows have forgotten the round trip from before the others came.
func TestSharesLast(t *testing.T) {
	const base = 200 * time.Microsecond
	l := newLink(1e9, base, 4e6/(1e9/8*base.Seconds()))
	for range 8 {
		l.add(false)
		l.pass(50*time.Millisecond + time.Duration(l.random.Int64N(int64(minDrainGap))))
	}
	l.pass(2*leastSpan + time.Second)
	if used, jain, queue, _ := l.measure(time.Second); used < 0.9 || jain < 0.95 || queue > 2*base {
		t.Errorf("%.2f of the link, Jain index %.2f, queue %v", used, jain, queue)
	}
}

// Jitter that keeps the order makes nearly all round trips as long as the longest. It is not mistaken for a queue. A real queue is
// recognized again when the jitter ends.
func TestJitterInOrder(t *testing.T) {
	for _, x := range []struct {
		base   time.Duration
		rounds int
	}{{20 * time.Microsecond, 10}, {200 * time.Microsecond, 1}, {200 * time.Microsecond, 10}} {
		l := newLink(1e9, x.base, max(4, 2*float64(x.rounds)))
		l.jitter = time.Duration(x.rounds) * x.base
		f := l.add(false)
		l.pass(5 * time.Second)
		if used, _, _, _ := l.measure(time.Second); used < 0.8 {
			t.Errorf("%v, jitter of %d: %.2f of the link", x.base, x.rounds, used)
		}
		l.jitter = 0
		l.pass(time.Second)
		if used, _, queue, _ := l.measure(time.Second); used < 0.9 || queue > 2*max(x.base, minQueueing) || f.state.response.ignored {
			t.Errorf("%v, after jitter of %d: %.2f of the link, queue %v", x.base, x.rounds, used, queue)
		}
	}
}

// On long paths, one packet of hundreds passes such jitter without delay, also in a drain. That packet does not show that the queue
// is gone.
func TestJitterInOrderOnALongPath(t *testing.T) {
	const base = 10 * time.Millisecond
	for _, seed := range []uint64{1, 4} {
		l := newLink(1e9, base, 4)
		l.jitter, l.random = base, rand.New(rand.NewPCG(seed, 2))
		l.add(false)
		l.pass(30 * time.Second)
		if used, _, _, _ := l.measure(time.Second); used < 0.8 {
			t.Errorf("seed %d: %.2f of the link", seed, used)
		}
	}
}
