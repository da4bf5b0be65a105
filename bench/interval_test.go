package bench

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestIntervals: the intervals of a test follow each other without a gap, in each direction, and contain no more operations than were
// done.
func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		name     string
		test     Test
		parallel Parallel
		want     []string // directions
	}{
		{"latency", WriteLat, Parallel{}, []string{""}},
		{"one connection", WriteBW, Parallel{}, []string{""}},
		{"several, both directions", WriteBW, Parallel{Connections: 2, Both: true}, []string{DirectionForth, DirectionBack}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if raceEnabled && c.test == WriteLat {
				t.Skip("the race detector reports what one-sided Writes are: memory that changes while a program polls it")
			}
			var ends map[string]float64
			var ops map[string]uint64
			moved := func() bool { return !slices.ContainsFunc(c.want, func(d string) bool { return ops[d] == 0 }) }
			for longer := time.Duration(1); longer == 1 || longer <= 64 && !moved(); longer *= 8 { // if the test was descheduled for its whole time, it starts again
				specs := []Spec{{Test: c.test, Size: 4096, Duration: longer * (2*MinInterval + MinInterval/2), Verify: true}}
				job := Job{Kind: KindND, Datapath: "udp", UDPPort: netlabtest.FreePort(t), Specs: specs, Parallel: c.parallel, Interval: MinInterval}
				job.Local.Addr, job.Peer.Addr = netip.MustParseAddrPort("127.0.0.43:9000"), netip.MustParseAddrPort("127.0.0.44:9000")
				got := runBoth(t, job, here, here)
				ends, ops = map[string]float64{}, map[string]uint64{}
				for _, x := range got.intervals {
					if math.Abs(x.Start-ends[x.Direction]) > 1e-6 || x.Seconds <= 0 || x.Bytes != 4096*x.Ops || x.Connections != c.parallel.Connections {
						t.Errorf("behind %v s: %+v", ends[x.Direction], x)
					}
					ends[x.Direction], ops[x.Direction] = x.Start+x.Seconds, ops[x.Direction]+x.Ops
				}
			}
			for _, d := range c.want {
				if ends[d] < MinInterval.Seconds()/2 || ops[d] == 0 {
					t.Errorf("%q: %v s and %d operations in all", d, ends[d], ops[d])
				}
			}
			if len(ends) != len(c.want) {
				t.Errorf("directions are %v", ends)
			}
		})
	}
}

// TestIntervalsHoldWhatWasDoneMeanwhile: the intervals contain exactly the operations between the beginning and the end of a test, even
// if the reporting goroutine does not run before the end.
func TestIntervalsHoldWhatWasDoneMeanwhile(t *testing.T) {
	got := &collector{}
	st := &station{}
	tell := newTeller()
	tell.sink, tell.stations, tell.every = got, []*station{st}, MinInterval
	began := time.Now()
	st.moved.Store(1000) // operations of the warm-up
	tell.begin(&meter{began: began})
	st.moved.Add(600)
	tell.end(began.Add(MinInterval))
	st.moved.Add(50) // operations in flight
	tell.watch(Spec{Test: WriteBW, Size: 1}, nil)
	if len(got.intervals) != 1 || got.intervals[0].Ops != 600 || got.intervals[0].Start != 0 || math.Abs(got.intervals[0].Seconds-MinInterval.Seconds()) > 1e-9 {
		t.Errorf("%+v, want one with 600 operations", got.intervals)
	}
}

// TestIntervalsEndWithTheRest: a test that ends within an interval reports the remaining part with its own length, unless this part is
// very short.
func TestIntervalsEndWithTheRest(t *testing.T) {
	for rest, want := range map[time.Duration]int{MinInterval / 2: 1, MinInterval / 4: 1, MinInterval / 10: 1, MinInterval / 11: 0} {
		got := &collector{}
		st := &station{}
		tell := newTeller()
		tell.sink, tell.stations, tell.every = got, []*station{st}, MinInterval
		began := time.Now()
		tell.begin(&meter{began: began})
		st.moved.Add(60)
		tell.end(began.Add(rest))
		tell.watch(Spec{Test: WriteBW, Size: 1000}, nil)
		if len(got.intervals) != want {
			t.Fatalf("a rest of %v: %+v", rest, got.intervals)
		}
		for _, x := range got.intervals {
			if x.Ops != 60 || math.Abs(x.Seconds-rest.Seconds()) > 1e-9 || math.Abs(x.Gbps-60*1000*8/rest.Seconds()/1e9) > 1e-9 {
				t.Errorf("a rest of %v: %+v", rest, x)
			}
		}
	}
}

// TestNobodyWantsIntervals: tests report no intervals by default.
func TestNobodyWantsIntervals(t *testing.T) {
	job := Job{Kind: KindND, Datapath: "udp", UDPPort: netlabtest.FreePort(t), Specs: []Spec{{Test: WriteBW, Duration: 10 * time.Millisecond}}}
	job.Local.Addr, job.Peer.Addr = netip.MustParseAddrPort("127.0.0.43:9000"), netip.MustParseAddrPort("127.0.0.44:9000")
	if got := runBoth(t, job, here, here); len(got.intervals) != 0 || len(got.results) != 1 {
		t.Errorf("%d intervals, %d results", len(got.intervals), len(got.results))
	}
}
