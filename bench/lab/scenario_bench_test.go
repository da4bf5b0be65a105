package lab

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// slowRate is the rate for scenarios that measure the slowest of many packets. The cores must be idle when a packet comes.
const slowRate = 200

// minQueueing is the least queueing delay that the transport aims at (provider/delaycontrol.go).
const minQueueing = 50 * time.Microsecond

// aim returns the queueing delay that the transport aims at with n flows: the least round trip, but at least minQueueing, and more for
// windows of few packets.
func (r *rig) aim(base time.Duration, n int) time.Duration {
	q := max(minQueueing, base)
	window := float64(r.bottleneck.BytesPerSec) * (base + 2*q).Seconds() / frame / float64(n)
	return q + time.Duration(float64(q)/math.Sqrt(max(window, 1)))
}

// pings measures Writes of 64 bytes, one after the other for d, and returns their durations, sorted.
func (f *flow) pings(t testing.TB, d time.Duration) (times []time.Duration) {
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
func BenchmarkFairness(b *testing.B) {
	for _, n := range []int{2, 4, 8, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b, setup{senders: min(n, 4), bottleneck: megabits(rate)})
			base := r.newFlow(b, 1, 64, 1, 0).pings(b, 50*time.Millisecond)[0]
			flows := r.newFlows(b, n, 32<<10, 16, 0)
			judge(b, func(f *figures) { r.fairness(b, f, flows, base) })
		})
	}
}

func (r *rig) fairness(b *testing.B, f *figures, flows []*flow, base time.Duration) {
	run := start(b, flows...)
	defer run.stop(b)
	r.watchQueue(b, settle)
	var waits []time.Duration
	moved, took := run.moved(func() { waits = r.watchQueue(b, time.Second) })
	aim := r.aim(base, len(flows))
	f.atLeast("Jain", jain(moved), 0.95, 0.1)
	f.atLeast("of-link", mbits(sum(moved), took)/r.capacity(), 0.8, 0.02)
	f.atMost("queue-p50/aim", over(quantile(waits, 500), aim), 2, 300)
	f.atMost("queue-p99/aim", over(quantile(waits, 990), aim), 4, 300)
}

// Random loss costs less than a fifth of the goodput.
func BenchmarkLoss(b *testing.B) {
	r := newRig(b, setup{bottleneck: megabits(rate)})
	spoiler := r.impair(b)
	flows := r.newFlows(b, 1, 32<<10, 16, 0)
	judge(b, func(f *figures) {
		run := start(b, flows...)
		defer run.stop(b)
		clean := 0.0
		for i, loss := range []float64{0, 0.001, 0.01} {
			must(b, spoiler.Set(impairments{Loss: loss, Seed: uint64(i)}))
			before, err := spoiler.Counts()
			must(b, err)
			r.watchQueue(b, settle)
			moved, took := run.moved(func() { r.watchQueue(b, time.Second) })
			after, err := spoiler.Counts()
			must(b, err)
			goodput := mbits(moved[0], took)
			if loss == 0 {
				clean = goodput
				continue
			}
			f.atLeast(fmt.Sprintf("of-goodput-at-%g%%-loss", loss*100), goodput/clean, 0.8, 0.02)
			if after.Dropped == before.Dropped {
				b.Error("nothing was lost")
			}
		}
	})
}

// 32 senders begin at once: there is no time-out, the bottleneck is used, and no sender is left behind.
func BenchmarkIncast(b *testing.B) {
	const size, each = 32 << 10, 16
	narrow := megabits(slowRate)
	narrow.Queue = 1e6 // as a switch port
	r := newRig(b, setup{senders: 4, bottleneck: narrow})
	flows := r.newFlows(b, 32, size, 16, each)
	judge(b, func(f *figures) {
		before, began := r.stats(), time.Now()
		start(b, flows...).wait(b)
		after := r.stats()
		var ends []time.Duration
		for _, fl := range flows {
			ends = append(ends, fl.finished.Sub(began))
		}
		slices.Sort(ends)
		fastest, slowest := ends[0], ends[len(ends)-1]
		f.atMost("time-outs", float64(after.Recovery.Timeouts-before.Recovery.Timeouts), 0, 1000)
		f.atLeast("of-link", mbits(32*each*size, slowest)/r.capacity(), 0.9, 0.02)
		f.atMost("slowest/fastest", over(slowest, fastest), 2, 50)
	})
}

// Small messages have a low latency beside a bulk flow.
func BenchmarkSmallBesideBulk(b *testing.B) {
	r := newRig(b, setup{senders: 2, bottleneck: megabits(slowRate)})
	small := r.newFlow(b, 1, 64, 1, 0)
	bulk := r.newFlow(b, 2, 32<<10, 16, 0)
	judge(b, func(f *figures) {
		idle := quantile(small.pings(b, 300*time.Millisecond), 500)
		run := start(b, bulk)
		defer run.stop(b)
		r.watchQueue(b, settle)
		f.atMost("p99/idle-p50", over(quantile(small.pings(b, 700*time.Millisecond), 990), idle), 5, 1000)
	})
}

// Marks of routers alone bound the rate of a flow: the marking port pretends to be slower than the bottleneck behind it, so the queue of
// the bottleneck stays empty and loses nothing (PROTOCOL §9.4).
func BenchmarkMarks(b *testing.B) {
	const marking = 300 // Mb/s
	for _, path := range markingPaths {
		b.Run(path.name, func(b *testing.B) {
			s := path.setup
			s.bottleneck = megabits(rate)
			r := newRig(b, s)
			router := r.impair(b)
			flows := r.newFlows(b, 1, 64<<10, 8, 0)
			must(b, router.Set(impairments{MarkAfter: 200 * time.Microsecond, MarkRate: marking * 1e6 / 8}))
			judge(b, func(f *figures) {
				run := start(b, flows...)
				defer run.stop(b)
				r.watchQueue(b, settle)
				lost := r.dropped(b)
				moved, took := run.moved(func() { r.watchQueue(b, 500*time.Millisecond) })
				ofMarking := mbits(moved[0], took) / (marking * float64(payload) / frame)
				f.atLeast("of-marking-rate", ofMarking, 0.4, 0.01)
				f.atMost("beyond-marking-rate", max(0, ofMarking-1), 0.1, 0.6)
				f.atMost("lost", float64(r.dropped(b)-lost), 0, 1000)
			})
		})
	}
}

// dropped returns how many packets the full queue of the bottleneck dropped.
func (r *rig) dropped(t testing.TB) int {
	t.Helper()
	b, err := r.star.Backlog(0)
	must(t, err)
	return b.Dropped
}
