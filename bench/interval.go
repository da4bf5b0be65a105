package bench

import (
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// MinInterval is the shortest interval, because reading counters takes some microseconds on the measured core.
const MinInterval = 100 * time.Millisecond

// leastRest is the least part of an interval that is reported at the end of a test. The rate of a shorter part would depend on when
// the end was noticed.
const leastRest = 10

// Interval is the progress of a test during a part of its measured time. Rates are sums over all connections of one direction.
type Interval struct {
	Test        Test    `json:"test"`
	Size        int     `json:"size"`
	MTU         int     `json:"mtu"`
	Connections int     `json:"connections,omitempty"` // number of connections, if more than one
	Direction   string  `json:"direction,omitempty"`   // as of a Result
	Start       float64 `json:"start"`                 // seconds after the measurement of the first connection began
	Seconds     float64 `json:"seconds"`
	Ops         uint64  `json:"ops"`
	Bytes       uint64  `json:"bytes"`
	Gbps        float64 `json:"gbps"`
	Mops        float64 `json:"mops"`
	CPU         float64 `json:"cpu_percent"` // of the measuring process, in percent of a core
	Resent      uint64  `json:"resent"`      // packets that its adapter retransmitted
}

// teller reports the progress of tests on several stations of one adapter. A nil teller reports nothing.
type teller struct {
	adapter   *nd.Adapter
	stations  []*station
	sink      testSink
	every     time.Duration
	direction string

	began, ended chan count // of the first station, in the present test
}

// tellOf makes the stations report progress, if every is set.
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

// newTeller returns a teller that only records when a measurement begins and ends.
func newTeller() *teller {
	return &teller{began: make(chan count, 1), ended: make(chan count, 1)}
}

// during reports the progress of a test until do returns. do runs the test.
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

// begin records that the measurement of a station begins, and end that it ends. Both read the counters at once, because watch may
// run much later, and operations until then must count in the right interval.
func (t *teller) begin(m *meter) {
	if t != nil {
		first(t.began, count{at: m.began, ops: t.ops(), cpu: m.cpu, resent: m.stats.Recovery.Retransmits})
	}
}

func (t *teller) end(now time.Time) {
	if t != nil {
		first(t.ended, t.look(now))
	}
}

// first puts a count into a channel with room for one, if it is empty.
func first(to chan count, now count) {
	select {
	case to <- now:
	default:
	}
}

// watch reports the progress from the first station's beginning to the first station's end.
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
			now.at = time.Now() // after counting, so that an end before this moment cannot have a lower count
			tell(now)
		case end := <-t.ended:
			if end.at.Sub(last.at) >= t.every/leastRest {
				tell(end)
			}
			return
		}
	}
}

// count is the state of the counters at a moment.
type count struct {
	at     time.Time
	ops    uint64
	cpu    time.Duration
	resent uint64
}

func (t *teller) look(at time.Time) count {
	c := count{at: at, ops: t.ops(), cpu: CPUTime()}
	if t.adapter != nil { // nil for a teller that does not report
		c.resent = t.adapter.Stats().Recovery.Retransmits
	}
	return c
}

func (t *teller) ops() (all uint64) {
	for _, s := range t.stations {
		all += s.moved.Load()
	}
	return all
}

// between returns the interval between two counts.
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
