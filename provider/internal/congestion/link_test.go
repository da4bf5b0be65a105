package congestion

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// link is a bottleneck with flows that always have data. It has controllers alone, without engines, and takes a thousandth of their
// time.
type link struct {
	rate   int           // bits per second
	buffer int           // bytes
	base   time.Duration // round trip without queue
	jitter time.Duration // for each direction; packets stay in order
	loss   float64
	packet int

	now    clock.Time
	free   clock.Time // when the last packet in the queue has left
	events events
	random *rand.Rand
	flows  []*sender

	waits         []time.Duration
	sent, dropped int
}

// event is an event of a flow: an acknowledgement, or a timer if packet is negative.
type event struct {
	at     clock.Time
	flow   *sender
	packet int
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].packet < h[j].packet
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// sender is a flow. Its packets are in order, and first is the number of the oldest one.
type sender struct {
	link     *link
	at       []clock.Time // when the packets from first on were sent
	first    int
	there    clock.Time // when the last packet arrives
	last     clock.Time // when the last acknowledgement arrives
	smoothed time.Duration
	heardAt  clock.Time
	timer    clock.Time
	got      int // bytes

	state  *State
	theirs *rival
}

// rival is the CUBIC window of RFC 9438, in packets.
type rival struct {
	window, threshold, before float64
	reducedAt                 clock.Time
}

func newLink(rate int, base time.Duration, buffer float64) *link {
	l := &link{rate: rate, base: base, packet: 1472, now: clock.Time(time.Second), random: rand.New(rand.NewPCG(1, 2))}
	l.buffer = max(int(buffer*float64(rate)/8*base.Seconds()), 2*l.packet)
	return l
}

func (l *link) add(cubical bool) *sender {
	f := &sender{link: l, heardAt: l.now}
	if cubical {
		f.theirs = &rival{window: 10, threshold: math.Inf(1)}
	} else {
		f.state = new(State)
		f.state.Reset(&Delay{}, l.packet)
	}
	l.flows = append(l.flows, f)
	f.send()
	return f
}

func (l *link) pass(d time.Duration) {
	end := l.now.Add(d)
	for len(l.events) > 0 && l.events[0].at <= end {
		e := heap.Pop(&l.events).(event)
		l.now = e.at
		if e.packet < 0 {
			e.flow.wake()
		} else {
			e.flow.acked(e.packet)
		}
	}
	l.now = end
}

// measure resets the counters, advances by d, and returns the used share of the link, Jain's index, the median queue and the drops.
func (l *link) measure(d time.Duration) (used, jain float64, queue time.Duration, drops float64) {
	l.waits, l.sent, l.dropped = nil, 0, 0
	for _, f := range l.flows {
		f.got = 0
	}
	l.pass(d)
	sum, squares := 0.0, 0.0
	for _, f := range l.flows {
		sum += float64(f.got)
		squares += float64(f.got) * float64(f.got)
	}
	slices.Sort(l.waits)
	if len(l.waits) > 0 {
		queue = l.waits[len(l.waits)/2]
	}
	return sum * 8 / float64(l.rate) / d.Seconds(), sum * sum / squares / float64(len(l.flows)), queue, float64(l.dropped) / float64(max(l.sent, 1))
}

func (l *link) someJitter() time.Duration {
	if l.jitter == 0 {
		return 0
	}
	return time.Duration(l.random.Int64N(int64(l.jitter)))
}

func (f *sender) inFlight() int { return len(f.at) * f.link.packet }

func (f *sender) full() bool {
	if f.theirs != nil {
		return float64(len(f.at)) >= f.theirs.window
	}
	return f.state.Full(f.inFlight(), f.link.now)
}

func (f *sender) send() {
	l := f.link
	for !f.full() {
		f.at = append(f.at, l.now)
		l.sent++
		if f.state != nil {
			f.state.Left(l.now)
		}
		l.free = max(l.free, l.now)
		wait := l.free.Sub(l.now)
		if int(wait)*(l.rate/1e6)/8000+l.packet > l.buffer {
			l.dropped++
			continue
		}
		l.waits = append(l.waits, wait)
		l.free = l.free.Add(time.Duration(l.packet * 8 * 1000 / (l.rate / 1e6)))
		if l.random.Float64() < l.loss {
			continue
		}
		f.there = max(f.there, l.free.Add(l.base/2+l.someJitter()))
		f.last = max(f.last, f.there.Add(l.base/2+l.someJitter()))
		heap.Push(&l.events, event{f.last, f, f.first + len(f.at) - 1})
	}
	at := f.heardAt.Add(max(2*f.smoothed, l.base) + 50*time.Millisecond)
	if f.state != nil {
		f.state.Held(l.now)
		if paced := f.state.PacedUntil(l.now); paced != 0 {
			at = min(at, paced)
		}
	}
	if at = max(at, l.now+1); f.timer <= l.now || at < f.timer {
		f.timer = at
		heap.Push(&l.events, event{at, f, -1})
	}
}

// wake handles a timer: packets may leave, or all count as lost.
func (f *sender) wake() {
	if now := f.link.now; len(f.at) > 0 && now.Sub(f.heardAt) > max(2*f.smoothed, f.link.base)+50*time.Millisecond {
		f.heardAt = now
		f.lost(len(f.at))
		if f.state != nil {
			f.state.TimedOut(&Delay{}, f.smoothed)
		} else {
			f.theirs.window = 1
		}
	}
	f.send()
}

func (f *sender) lost(n int) {
	if n == 0 {
		return
	}
	sent := f.at[n-1]
	f.first, f.at = f.first+n, f.at[n:]
	if f.state != nil {
		f.state.Lost(n*f.link.packet, sent)
		return
	}
	if c := f.theirs; f.link.now.Sub(c.reducedAt) > f.smoothed {
		c.reducedAt, c.before = f.link.now, c.window
		c.window = max(c.window*0.7, 2)
		c.threshold = c.window
	}
}

func (f *sender) acked(packet int) {
	l := f.link
	if packet < f.first {
		return
	}
	f.heardAt = l.now
	f.lost(packet - f.first)
	rtt := l.now.Sub(f.at[0])
	f.first, f.at = f.first+1, f.at[1:]
	f.got += l.packet
	if f.smoothed == 0 {
		f.smoothed = rtt
	}
	f.smoothed += (rtt - f.smoothed) / 8
	if c := f.theirs; c != nil {
		c.acked(l.now, f.smoothed)
	} else {
		f.state.Delivered(l.packet)
		f.state.Sample(rtt, l.packet, l.now.Add(-rtt))
		f.state.Conclude(&Delay{}, Path{Now: l.now, Smoothed: f.smoothed})
	}
	f.send()
}

func (c *rival) acked(now clock.Time, rtt time.Duration) {
	if c.window < c.threshold {
		c.window++
		return
	}
	since := now.Sub(c.reducedAt).Seconds() + rtt.Seconds()
	late := since - math.Cbrt(c.before*0.3/0.4)
	reno := c.before*0.7 + 3*0.3/1.7*since/rtt.Seconds()
	if target := max(0.4*late*late*late+c.before, reno); target > c.window {
		c.window += min((target-c.window)/c.window, 0.5)
	}
}
