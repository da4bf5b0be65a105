package bench

import (
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// MinInterval is the shortest time from one Interval to the next: looking costs some microseconds of the core that is measured.
const MinInterval = 100 * time.Millisecond

// leastRest is of an interval the smallest part that is told at the end of a test: less is how late the end was noted, and its rate says nothing.
const leastRest = 10

// Interval is what a test did in a part of its measured time, reported while it runs. Rates are sums over all connections of one direction.
type Interval struct {
	Test        Test    `json:"test"`
	Size        int     `json:"size"`
	MTU         int     `json:"mtu"`
	Connections int     `json:"connections,omitempty"` // at once, if more than one
	Direction   string  `json:"direction,omitempty"`   // as of a Result
	Start       float64 `json:"start"`                 // seconds after the first connection began to be measured
	Seconds     float64 `json:"seconds"`
	Ops         uint64  `json:"ops"`
	Bytes       uint64  `json:"bytes"`
	Gbps        float64 `json:"gbps"`
	Mops        float64 `json:"mops"`
	CPU         float64 `json:"cpu_percent"` // of the process that measures, in percent of a core
	Resent      uint64  `json:"resent"`      // packets that its adapter sent again
}

// teller tells of the tests of some stations of one adapter while they run. A nil one tells nothing.
type teller struct {
	adapter   *nd.Adapter
	stations  []*station
	sink      testSink
	every     time.Duration
	direction string

	began, ended chan count // of the first station, in the test that runs
}

// tellOf makes the stations tell of their tests, if every says so.
func tellOf(a *nd.Adapter, every time.Duration, direction string, sink testSink, stations ...*station) *teller {
	if every == 0 {
		return nil
	}
	t := newTeller()
	t.adapter, t.stations, t.sink, t.every, t.direction = a, stations, sink, every, direction
	for _, s := range stations {
		s.teller = t
	}
	return t
}

// newTeller makes one that notes when the next test is measured, and tells nobody.
func newTeller() *teller {
	return &teller{began: make(chan count, 1), ended: make(chan count, 1)}
}

// during tells of a test until do, which runs it, is over.
func (t *teller) during(s Spec, do func()) {
	if t == nil {
		do()
		return
	}
	t.began, t.ended = make(chan count, 1), make(chan count, 1)
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		t.watch(s, over)
	}()
	do()
	close(over)
	<-told
}

// begin notes that a station is measured from now on, end that it no longer is. Both count at once: watch may get no core until much later, and what was done by
// then belongs to the first interval, or to none.
func (t *teller) begin(m *meter) {
	if t != nil {
		first(t.began, count{at: m.began, ops: t.ops(), cpu: m.cpu, resent: m.stats.Retransmits})
	}
}

func (t *teller) end(now time.Time) {
	if t != nil {
		first(t.ended, t.look(now))
	}
}

// first puts a count into a channel that holds one, unless there was one.
func first(to chan count, now count) {
	select {
	case to <- now:
	default:
	}
}

// watch tells of a test from its first station's beginning to its first station's end.
func (t *teller) watch(s Spec, over <-chan struct{}) {
	var start count
	select {
	case start = <-t.began:
	case <-over:
		return
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	last := start
	tell := func(now count) {
		t.sink.Interval(t.between(s, last.at.Sub(start.at), last, now))
		last = now
	}
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			now := t.look(time.Time{})
			now.at = time.Now() // behind what was counted, so that an end before this moment cannot have counted less
			tell(now)
		case end := <-t.ended:
			if end.at.Sub(last.at) >= t.every/leastRest {
				tell(end)
			}
			return
		}
	}
}

// count is what was counted until a moment.
type count struct {
	at     time.Time
	ops    uint64
	cpu    time.Duration
	resent uint64
}

func (t *teller) look(at time.Time) count {
	c := count{at: at, ops: t.ops(), cpu: CPUTime()}
	if t.adapter != nil { // one that tells nobody has none
		c.resent = t.adapter.Stats().Retransmits
	}
	return c
}

func (t *teller) ops() (all uint64) {
	for _, s := range t.stations {
		all += s.moved.Load()
	}
	return all
}

// between returns the interval between two moments.
func (t *teller) between(s Spec, start time.Duration, from, to count) Interval {
	x := Interval{
		Test: s.Test, Size: s.Size, MTU: s.MTU, Direction: t.direction, Start: start.Seconds(), Seconds: to.at.Sub(from.at).Seconds(),
		Ops: to.ops - from.ops, CPU: percent(to.cpu-from.cpu, to.at.Sub(from.at)), Resent: to.resent - from.resent,
	}
	if n := len(t.stations); n > 1 {
		x.Connections = n
	}
	x.Bytes = x.Ops * uint64(s.Size)
	x.Gbps, x.Mops = rates(x.Ops, x.Bytes, x.Seconds)
	return x
}
