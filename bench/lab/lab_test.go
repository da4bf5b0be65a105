//go:build !race

// Under the race detector two cores do not carry the traffic that the bounds are about.

package lab

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// slowRate is for scenarios that ask for the latest of many packets: the cores have to be free when it comes.
const slowRate = 200

// minQueueing is the least time in queues that the transport aims at (provider/delaycontrol.go).
const minQueueing = 50 * time.Microsecond

// aim is the queueing that the transport aims at with n flows: the least round trip, at least minQueueing, and more for
// windows of few packets.
func (r *rig) aim(base time.Duration, n int) time.Duration {
	q := max(minQueueing, base)
	window := float64(r.bottleneck.BytesPerSec) * (base + 2*q).Seconds() / frame / float64(n)
	return q + time.Duration(float64(q)/math.Sqrt(max(window, 1)))
}

// pings measures Writes of 64 bytes, one after the other for d, and returns how long they took, sorted.
func (f *flow) pings(t *testing.T, d time.Duration) (times []time.Duration) {
	t.Helper()
	var res [1]nd.Result
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		began := time.Now()
		must(t, f.write(0))
		_, err := f.from.results(res[:])
		must(t, err)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times
}

// Flows share the bottleneck, use it, and keep its queue short.
func TestFairness(t *testing.T) {
	counts := []int{4, 16}
	if long {
		counts = []int{2, 4, 8, 16}
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t, setup{senders: min(n, 4), bottleneck: megabits(rate)})
			base := r.newFlow(t, 1, 64, 1, 0).pings(t, 50*time.Millisecond)[0]
			flows := r.newFlows(t, n, 32<<10, 16, 0)
			judge(t, func() *verdict { return r.fairness(t, flows, base) })
		})
	}
}

func (r *rig) fairness(t *testing.T, flows []*flow, base time.Duration) *verdict {
	run := start(t, flows...)
	defer run.stop(t)
	r.watchQueue(t, settle)
	var waits []time.Duration
	moved, took := run.moved(func() { waits = r.watchQueue(t, time.Second) })
	aim, share := r.aim(base, len(flows)), jain(moved)
	goodput, median, p99 := mbits(sum(moved), took), quantile(waits, 500), quantile(waits, 990)
	v := &verdict{}
	v.say("%d flows: Jain %.3f, %.0f of %.0f Mb/s, queueing median %v p99 %v, aim %v",
		len(flows), share, goodput, r.capacity(), median, p99, aim)
	v.want(share >= 0.95, "Jain index %.3f, want 0.95", share)
	v.want(goodput >= 0.8*r.capacity(), "%.0f Mb/s", goodput)
	v.want(median <= 2*aim && p99 <= 4*aim, "queueing median %v, p99 %v, want at most 2 and 4 times %v", median, p99, aim)
	return v
}

// Random loss costs less than a fifth of the goodput.
func TestLoss(t *testing.T) {
	r := newRig(t, setup{bottleneck: megabits(rate)})
	spoiler := r.impair(t, 0)
	flows := r.newFlows(t, 1, 32<<10, 16, 0)
	span := 500 * time.Millisecond
	if long {
		span = time.Second
	}
	judge(t, func() *verdict {
		v := &verdict{}
		run := start(t, flows...)
		defer run.stop(t)
		clean := 0.0
		for i, loss := range []float64{0, 0.001, 0.01} {
			must(t, spoiler.Set(impairments{Loss: loss, Seed: uint64(i)}))
			before, err := spoiler.Counts()
			must(t, err)
			r.watchQueue(t, settle)
			moved, took := run.moved(func() { r.watchQueue(t, span) })
			after, err := spoiler.Counts()
			must(t, err)
			goodput := mbits(moved[0], took)
			v.say("%.1f %% loss: %.0f Mb/s (%d lost) ", loss*100, goodput, after.Dropped-before.Dropped)
			if loss == 0 {
				clean = goodput
				continue
			}
			v.say("%.0f %% of what the loss leaves; ", 100*goodput/clean/(1-loss))
			v.want(goodput >= 0.8*clean, "%.1f %% loss leaves %.0f of %.0f Mb/s", loss*100, goodput, clean)
			v.want(after.Dropped > before.Dropped, "nothing was lost")
		}
		return v
	})
}

// 32 senders begin at once: no time-out, the bottleneck is used, and nobody is left behind.
func TestIncast(t *testing.T) {
	const size, each = 32 << 10, 16
	narrow := megabits(slowRate)
	narrow.Queue = 1e6 // as a switch port
	r := newRig(t, setup{senders: 4, bottleneck: narrow})
	flows := r.newFlows(t, 32, size, 16, each)
	judge(t, func() *verdict {
		v := &verdict{}
		before := r.stats()
		began := time.Now()
		start(t, flows...).wait(t)
		after := r.stats()
		var ends []time.Duration
		for _, f := range flows {
			ends = append(ends, f.finished.Sub(began))
		}
		slices.Sort(ends)
		fastest, slowest := ends[0], ends[len(ends)-1]
		goodput := mbits(32*each*size, slowest)
		timeouts := after.Timeouts - before.Timeouts
		v.say("32 to 1: %.0f of %.0f Mb/s, fastest %v, slowest %v, %d time-outs (%d spurious), %d resent", goodput, r.capacity(),
			fastest.Round(time.Microsecond), slowest.Round(time.Microsecond), timeouts, after.Spurious-before.Spurious,
			after.Retransmits-before.Retransmits)
		v.want(timeouts == 0, "%d time-outs", timeouts)
		v.want(goodput >= 0.9*r.capacity(), "%.0f Mb/s", goodput)
		v.want(slowest <= 2*fastest, "the slowest took %v, the fastest %v", slowest, fastest)
		return v
	})
}

// Small messages get through beside a bulk flow.
func TestSmallBesideBulk(t *testing.T) {
	r := newRig(t, setup{senders: 2, bottleneck: megabits(slowRate)})
	small := r.newFlow(t, 1, 64, 1, 0)
	bulk := r.newFlow(t, 2, 32<<10, 16, 0)
	judge(t, func() *verdict {
		v := &verdict{}
		alone := small.pings(t, 300*time.Millisecond)
		idle := quantile(alone, 500)
		run := start(t, bulk)
		defer run.stop(t)
		r.watchQueue(t, settle)
		times := small.pings(t, 700*time.Millisecond)
		p50, p99 := quantile(times, 500), quantile(times, 990)
		v.say("small writes: idle median %v p99 %v, beside bulk %v, p99 %v", idle, quantile(alone, 990), p50, p99)
		v.want(p99 <= 5*idle, "p99 %v, want at most 5 times %v", p99, idle)
		return v
	})
}
