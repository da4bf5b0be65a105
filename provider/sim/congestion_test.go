//go:build !race

// A simulation is one goroutine: there is nothing to race, and the detector makes it fifteen times slower.

package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// The network of these tests: 1 Gb/s into one host, 100 µs in each direction.
const (
	testRate  = 1e9
	testDelay = 100 * time.Microsecond
	testMTU   = 1472
	// testTarget is the queueing delay that the controller aims at: one minimum round trip.
	testTarget = 2 * testDelay
)

var update = flag.Bool("update", false, "write golden files anew")

// fleet is a group of flows that share a bottleneck.
type fleet struct {
	*Network
	sink   *Host
	narrow *Bottleneck
	flows  []*Bulk
}

// newFleet connects flows to one host, each from a host of its own. The conditions and the bottleneck apply from when all are
// connected.
func newFleet(t *testing.T, cond Conditions, b Bottleneck, flows ...*Bulk) *fleet {
	t.Helper()
	return newFleetOf(t, bulkConfig(testMTU), cond, b, flows...)
}

// newFleetOf is newFleet with this host configuration.
func newFleetOf(t *testing.T, config HostConfig, cond Conditions, b Bottleneck, flows ...*Bulk) *fleet {
	t.Helper()
	return newFleetBetween(t, config, config, cond, b, flows...)
}

// newFleetBetween is newFleet with one configuration for the sources, and another for the sink.
func newFleetBetween(t *testing.T, config, sink HostConfig, cond Conditions, b Bottleneck, flows ...*Bulk) *fleet {
	t.Helper()
	return newSeededFleet(t, 1, config, sink, cond, b, flows...)
}

// newSeededFleet is newFleetBetween with another random seed.
func newSeededFleet(t *testing.T, seed uint64, config, sink HostConfig, cond Conditions, b Bottleneck, flows ...*Bulk) *fleet {
	t.Helper()
	f := &fleet{Network: NewNetwork(seed, Conditions{Delay: cond.Delay}, nil), narrow: &b, flows: flows}
	f.sink = f.AddHost(sink)
	for i, flow := range flows {
		f.Attach(flow, f.AddHost(config), f.sink, uint16(1000+i))
	}
	if len(f.broken) > 0 {
		t.Fatal(f.broken)
	}
	f.Conditions = cond
	f.sink.Narrow(&b)
	return f
}

func writers(n int) []*Bulk {
	flows := make([]*Bulk, n)
	for i := range flows {
		flows[i] = &Bulk{Kind: provider.KindWrite, Size: 32 << 10, Depth: 16}
	}
	return flows
}

// pass advances the time by d.
func (f *fleet) pass(t *testing.T, d time.Duration) {
	t.Helper()
	end := f.now.Add(d)
	f.RunUntil(2*d+time.Second, func() bool { return f.now >= end })
	if len(f.broken) > 0 {
		t.Fatal(f.broken)
	}
}

func (f *fleet) stats() (timeouts, resent uint64) {
	for _, h := range f.hosts {
		s := h.Engine.Stats()
		timeouts += s.Timeouts
		resent += s.Retransmits
	}
	return timeouts, resent
}

// jain is Jain's fairness index of the flows' goodput, in thousandths.
func jain(flows []*Bulk) int {
	sum, squares := 0, 0
	for _, b := range flows {
		sum += b.Done
		squares += b.Done * b.Done
	}
	return sum * sum * 1000 / (len(flows) * squares)
}

// Flows share a bottleneck fairly, use it, and keep its queue near the target.
func TestFlowsShareABottleneck(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8, 16} {
		f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, writers(n)...)
		for i, b := range f.flows {
			b.Start(time.Duration(i) * time.Millisecond)
		}
		f.pass(t, 50*time.Millisecond)
		f.narrow.Forget()
		for _, b := range f.flows {
			b.Forget()
		}
		f.pass(t, time.Second)
		w := f.narrow.Waits(500, 990)
		used := f.narrow.Passed * 8 * 100 / testRate
		timeouts, resent := f.stats()
		t.Logf("%2d flows: Jain %d/1000, link used %d %%, queueing median %v p99 %v, %d dropped, %d time-outs, %d resent",
			n, jain(f.flows), used, w[0], w[1], f.narrow.Dropped, timeouts, resent)
		if j := jain(f.flows); j < 950 {
			t.Errorf("%d flows: Jain index %d/1000", n, j)
		}
		if used < 90 {
			t.Errorf("%d flows use %d %% of the link", n, used)
		}
		if w[0] > 2*testTarget || w[1] > 4*testTarget {
			t.Errorf("%d flows: packets wait %v, p99 %v", n, w[0], w[1])
		}
	}
}

// On a path this short, a flow's share is less than a packet: the path holds 2.5 packets, and the queue as many.
func TestFlowsShareAShortPath(t *testing.T) {
	const rate, delay = 500e6, 20 * time.Microsecond
	for _, n := range []int{2, 4, 8, 16} {
		f := newFleet(t, Conditions{Delay: delay, Jitter: 5 * time.Microsecond}, Bottleneck{Rate: rate, Queue: rate / 8 / 250}, writers(n)...)
		for i, b := range f.flows {
			b.Start(time.Duration(i) * time.Millisecond)
		}
		f.pass(t, 100*time.Millisecond)
		f.narrow.Forget()
		for _, b := range f.flows {
			b.Forget()
		}
		f.pass(t, time.Second)
		w := f.narrow.Waits(500, 990)
		used := f.narrow.Passed * 8 * 100 / rate
		t.Logf("%2d flows: Jain %d/1000, link used %d %%, queueing median %v p99 %v", n, jain(f.flows), used, w[0], w[1])
		if jain(f.flows) < 950 || used < 90 || f.narrow.Dropped > 0 {
			t.Errorf("%d flows: Jain index %d/1000, %d %% of the link, %d dropped", n, jain(f.flows), used, f.narrow.Dropped)
		}
	}
}

// 32 senders begin at once at a switch port that buffers 1 MB. No sender has a time-out, and the link is used well. The slowest
// sender takes at most twice as long as the fastest, in the median of three runs, because single runs vary from 1.5 to 2.0. The
// same holds for 32 answers to READs.
func TestIncast(t *testing.T) {
	for _, kind := range []provider.RequestKind{provider.KindWrite, provider.KindRead} {
		var behind []float64
		for seed := range uint64(3) {
			behind = append(behind, testIncast(t, kind, seed+1))
		}
		slices.Sort(behind)
		if behind[1] > 2 {
			t.Errorf("kind %d: the slowest took %.2f times as long as the fastest", kind, behind)
		}
	}
}

func testIncast(t *testing.T, kind provider.RequestKind, seed uint64) (behind float64) {
	const rate, each, size = 10_000_000_000, 32, 32 << 10
	config := bulkConfig(testMTU)
	f := newSeededFleet(t, seed, config, config, Conditions{Delay: 10 * time.Microsecond}, Bottleneck{Rate: rate, Queue: 1e6})
	for i := range 32 {
		b := &Bulk{Kind: kind, Size: size, Depth: 16, Limit: each}
		from, to := f.AddHost(config), f.sink
		if kind == provider.KindRead {
			from, to = to, from
		}
		f.Attach(b, from, to, uint16(1000+i))
		f.flows = append(f.flows, b)
	}
	f.narrow.Forget()
	start := f.now
	for _, b := range f.flows {
		b.Start(0)
	}
	all := func() bool {
		return !slices.ContainsFunc(f.flows, func(b *Bulk) bool { return b.Done < each })
	}
	if !f.RunUntil(time.Second, all) {
		t.Fatal("not done in a second", f.broken)
	}
	fastest, slowest := f.flows[0].Finished.Sub(start), time.Duration(0)
	for _, b := range f.flows {
		fastest, slowest = min(fastest, b.Finished.Sub(start)), max(slowest, b.Finished.Sub(start))
	}
	// A full packet has at most 1408 bytes of payload.
	const packets = 32 * each * size / 1408
	ideal := time.Duration(packets * (testMTU + wireOverhead) * 8 * 1000 / (rate / 1_000_000))
	timeouts, resent := f.stats()
	w := f.narrow.Waits(500, 990)
	t.Logf("kind %d: fastest %v, slowest %v, ideal %v, queueing median %v p99 %v, %d dropped, %d time-outs, %d resent",
		kind, fastest, slowest, ideal, w[0], w[1], f.narrow.Dropped, timeouts, resent)
	if timeouts > 0 {
		t.Errorf("%d time-outs", timeouts)
	}
	if slowest*9 > ideal*10 {
		t.Errorf("it took %v instead of %v", slowest, ideal)
	}
	return float64(slowest) / float64(fastest)
}

// Small messages beside bulk data, also from the same host, have a 99th percentile of at most five times the idle median.
func TestSmallBesideBulk(t *testing.T) {
	small := &Bulk{Kind: provider.KindWrite, Size: 64, Depth: 16, Every: 500 * time.Microsecond}
	f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, small)
	bulk := writers(4)
	for i, b := range bulk {
		f.Attach(b, small.from, f.sink, uint16(2000+i))
	}
	small.Start(0)
	f.pass(t, 100*time.Millisecond)
	idle := quantile(small.Times, 500)
	for _, b := range bulk {
		b.Start(0)
	}
	f.pass(t, 50*time.Millisecond)
	small.Forget()
	f.pass(t, 500*time.Millisecond)
	p50, p99 := quantile(small.Times, 500), quantile(small.Times, 990)
	t.Logf("idle median %v, beside bulk %v, p99 %v", idle, p50, p99)
	if p99 > 5*idle {
		t.Errorf("p99 %v beside bulk, the idle median is %v", p99, idle)
	}
}

func quantile(times []time.Duration, thousandths int) time.Duration {
	b := Bottleneck{waits: times}
	return b.Waits(thousandths)[0]
}

// Marks keep the queue near the length at which the router marks, without loss: in data centers (RFC 8257) and elsewhere (RFC
// 3168).
func TestMarks(t *testing.T) {
	for _, center := range []bool{true, false} {
		testMarks(t, center)
	}
}

func testMarks(t *testing.T, center bool) {
	const mark = 10e3 // bytes: 80 µs, below the delay target
	config := bulkConfig(testMTU)
	config.Engine.DataCenter = center
	f := newFleetOf(t, config, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3, Mark: mark}, writers(4)...)
	for _, b := range f.flows {
		b.Start(0)
	}
	f.pass(t, 50*time.Millisecond)
	f.narrow.Forget()
	for _, b := range f.flows {
		b.Forget()
	}
	f.pass(t, 500*time.Millisecond)
	w := f.narrow.Waits(500, 990)
	used := f.narrow.Passed * 2 * 8 * 100 / testRate
	t.Logf("data center %v: Jain %d/1000, link used %d %%, queueing median %v p99 %v, %d marked", center, jain(f.flows), used, w[0], w[1], f.narrow.Marked)
	if w[0] > 160*time.Microsecond || used < 90 || f.narrow.Marked == 0 || jain(f.flows) < 950 {
		t.Errorf("data center %v: queueing %v, link used %d %%, %d marked, Jain %d/1000", center, w[0], used, f.narrow.Marked, jain(f.flows))
	}
}

// gridRow is the measurement of one row of the grid. Each cell is the median of several seeds: with 3 % of loss single runs differ
// by more than half, and these medians by less than gridBound.
type gridRow struct {
	loss  int // of 10,000 packets
	seeds uint64
	time  time.Duration
}

// gridBound is how much a cell may differ from the golden file, in percent.
const gridBound = 20

// goodput returns the median goodput of one flow in Mb/s.
func (r gridRow) goodput(t *testing.T, cond Conditions) int {
	t.Helper()
	var all []int
	for seed := range r.seeds {
		flows := writers(1)
		f := newSeededFleet(t, 1+seed, bulkConfig(testMTU), bulkConfig(testMTU), cond, Bottleneck{Rate: testRate, Queue: 500e3}, flows...)
		flows[0].Start(0)
		f.pass(t, 20*time.Millisecond)
		flows[0].Forget()
		f.pass(t, r.time)
		all = append(all, int(int64(flows[0].Done)*int64(flows[0].Size)*8*1000/int64(r.time)))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// The goodput of one flow under loss and reordering is compared with a golden file, so that a change of recovery or of the
// controller shows as a difference. With 1 % of loss, 80 % of the goodput must remain.
func TestGoodputGrid(t *testing.T) {
	const columns = 4
	rows := [...]gridRow{{0, 3, 100 * time.Millisecond}, {10, 3, 100 * time.Millisecond}, {100, 9, 100 * time.Millisecond}, {300, 9, 300 * time.Millisecond}}
	var cells [len(rows)][columns]int
	t.Run("cells", func(t *testing.T) {
		for i, row := range rows {
			for column, cond := range [columns]Conditions{
				{Rates: Rates{Loss: row.loss}},
				{Rates: Rates{Loss: row.loss}, Jitter: 20 * time.Microsecond},
				{Rates: Rates{Loss: row.loss}, Jitter: 100 * time.Microsecond},
				{Rates: Rates{Loss: row.loss, Late: 100}},
			} {
				t.Run(fmt.Sprint(row.loss, column), func(t *testing.T) {
					t.Parallel()
					cond.Delay = testDelay
					cells[i][column] = row.goodput(t, cond)
				})
			}
		}
	})
	var out bytes.Buffer
	fmt.Fprintln(&out, "Goodput of one flow over 1 Gb/s with 0.2 ms round trip, in Mb/s: medians.")
	fmt.Fprintf(&out, "loss, in 1/10000%14s%14s%14s%14s\n", "no_jitter", "jitter_20µs", "jitter_100µs", "1_%_late")
	for i, row := range rows {
		fmt.Fprintf(&out, "%16d%14d%14d%14d%14d\n", row.loss, cells[i][0], cells[i][1], cells[i][2], cells[i][3])
	}
	if cells[2][0]*100 < cells[0][0]*80 {
		t.Errorf("%d Mb/s with 1 %% of loss, %d without", cells[2][0], cells[0][0])
	}
	const golden = "testdata/goodput.golden.txt"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, row := range rows {
		var loss int
		var want [columns]int
		if _, err := fmt.Sscan(lines[2+i], &loss, &want[0], &want[1], &want[2], &want[3]); err != nil || loss != row.loss {
			t.Fatalf("line %d of %s: %v", 3+i, golden, err)
		}
		for column, got := range cells[i] {
			if off := got - want[column]; 100*max(off, -off) > gridBound*want[column] {
				t.Errorf("loss %d/10000, column %d: %d Mb/s, and %d in the golden", loss, column, got, want[column])
			}
		}
	}
	if t.Failed() {
		t.Errorf("goodput changed; -update writes the golden anew:\n%s", &out)
	}
}

// TestPathGetsLonger: after a change of the route, the minimum round trip seen so far is never reached again. The controller
// detects that, because even the smallest window stays above the target, and fills the longer path.
func TestPathGetsLonger(t *testing.T) {
	f := newFleet(t, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 512 << 10}, writers(1)...)
	f.flows[0].Start(0)
	f.pass(t, 200*time.Millisecond)
	f.Delay = 10 * testDelay
	f.pass(t, time.Second)
	f.narrow.Forget()
	f.pass(t, time.Second)
	if got := float64(f.narrow.Passed) * 8 / testRate; got < 0.8 {
		t.Errorf("%.2f of the link is used a second after its delay went from %v to %v", got, testDelay, f.Delay)
	}
}

// If many connections begin at once, some lose all packets in flight and their first probes. Further probes follow, so that no
// connection waits for the long time-out of a new path. With a single probe, each of these seeds had a connection that waited.
func TestLostProbesAreFollowedByOthers(t *testing.T) {
	i := slices.IndexFunc(incasts(), func(w *scenario) bool { return w.flows == 32 && w.packet == packet9000 })
	for _, seed := range []uint64{3, 5, 6, 13} {
		if s := incasts()[i].run(seed); s[slowest] > 1.5 || s[timeouts] > 0 {
			t.Errorf("seed %d: %.2f of the ideal time, %.3f time-outs for each connection", seed, s[slowest], s[timeouts])
		}
	}
}
