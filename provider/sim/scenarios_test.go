//go:build !race

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// scenario is a network, and flows on it.
type scenario struct {
	name  string
	quick bool // every test run includes it

	rate    int
	rtt     time.Duration
	packet  int     // longest ND packet
	buffer  float64 // of the bottleneck, in bandwidth-delay products
	police  bool
	flows   int
	every   time.Duration // from the start of one flow to that of the next; zero for all at once
	cubic   int           // flows with CUBIC's window, which begin earlier
	jitter  float64       // in round trips; packets stay in order
	reorder float64       // in round trips; packets are reordered
	mark    float64       // queue length from which the bottleneck marks, in bandwidth-delay products; zero for never
	center  bool          // the hosts treat marks as in a data center
	loss    int           // of 10,000, in both directions
	ackLoss int           // of 10,000 packets that the receiver sends
	drift   int           // parts per million
	each    int           // bytes of a flow, for incast; zero for no end
	settle  time.Duration // time before the measurement; zero for a default

	bars []bar
}

// Packet sizes for usual Ethernet frames and for jumbo frames.
const (
	packet1500 = 1472
	packet9000 = 8972
)

func (w *scenario) bdp() int {
	return int(int64(w.rate) / 8 * int64(w.rtt/time.Nanosecond) / int64(time.Second))
}

// aim returns the reference for the queue: a round trip, but at least 50 µs and three packets.
func (w *scenario) aim() time.Duration {
	packets := time.Duration(3 * (w.packet + wireOverhead) * 8 * int(time.Second) / w.rate)
	return max(w.rtt, 50*time.Microsecond, packets)
}

// payload returns the share of a full packet on the wire that is payload.
func (w *scenario) payload() float64 { return float64(w.packet-64) / float64(w.packet+wireOverhead) }

// run simulates the world once.
func (w *scenario) run(seed uint64) score {
	n := NewNetwork(seed, Conditions{Delay: w.rtt / 2}, nil)
	config := bulkConfig(w.packet)
	config.Engine.DataCenter = w.center
	sinkConfig := config
	sinkConfig.SendLoss = w.ackLoss
	sinkConfig.Drift = w.drift
	sink := n.AddHost(sinkConfig)
	b := &Bottleneck{Rate: w.rate, Queue: max(int(w.buffer*float64(w.bdp())), 2*(w.packet+wireOverhead)), Police: w.police, Mark: int(w.mark * float64(w.bdp()))}
	rng := rand.New(rand.NewPCG(seed, 4))
	var cubics []*Cubic
	begin := func() {
		n.Conditions = Conditions{
			Delay: w.rtt / 2, Jitter: time.Duration((w.jitter + w.reorder) * float64(w.rtt)), InOrder: w.jitter > 0, Rates: Rates{Loss: w.loss},
		}
		sink.Narrow(b)
		for range w.cubic {
			cubics = append(cubics, n.NewCubic(b, w.rtt, -1))
		}
	}
	if w.every > 0 || w.cubic > 0 {
		begin()
		n.pass(min(100*w.rtt, 2*time.Second))
	}
	var flows []*Bulk
	for i := range w.flows {
		// The window covers twice the bandwidth-delay product: if jitter keeps the order, nearly all packets take as long as the
		// slowest, in both directions.
		f := &Bulk{Kind: provider.KindWrite, Size: min(max(int(float64(w.bdp())*(1+2*w.jitter))/8, 64<<10), 4<<20), Depth: 16}
		if w.each > 0 {
			f.Size, f.Limit = 64<<10, w.each/(64<<10)
		}
		flows = append(flows, f)
		n.Attach(f, n.AddHost(config), sink, uint16(1000+i))
		if w.every > 0 {
			f.Start(0)
			n.pass(w.every)
		}
	}
	if w.every == 0 && w.cubic == 0 {
		begin()
	}
	if w.each > 0 {
		return w.complete(n, flows, b)
	}
	if w.every == 0 {
		for _, f := range flows {
			f.Start(between(rng, 0, 2*w.rtt))
		}
	}
	return w.measure(n, flows, cubics, b)
}

// measure lets the flows settle, and then measures the figures.
func (w *scenario) measure(n *Network, flows []*Bulk, cubics []*Cubic, b *Bottleneck) score {
	var s score
	settle, span := max(100*w.rtt, 200*time.Millisecond), max(60*w.rtt, 100*time.Millisecond)
	// Only whole requests are counted, so the measurement must be long compared with a request.
	span = max(span, time.Duration(500*(w.packet+wireOverhead)*8)*time.Second/time.Duration(w.rate))
	if w.rate > 20e9 {
		settle, span = 200*w.rtt, 100*w.rtt
	}
	if w.cubic > 0 {
		settle, span = 5*time.Second, 10*time.Second
	}
	if w.settle > 0 {
		settle = w.settle
	}
	n.pass(settle)
	b.Forget()
	before := n.timeouts()
	for _, f := range flows {
		f.Forget()
	}
	for _, c := range cubics {
		c.Forget()
	}
	n.pass(span)
	sum, squares := 0.0, 0.0
	for _, f := range flows {
		got := float64(f.Done) * float64(f.Size)
		sum += got
		squares += got * got
	}
	full := float64(w.rate) / 8 * span.Seconds()
	s[goodput] = sum / (full * w.payload())
	if squares > 0 {
		s[fairness] = sum * sum / (float64(len(flows)) * squares)
	}
	if len(b.waits) > 0 && !w.police {
		waits := b.Waits(500, 990)
		s[standing], s[tail] = float64(waits[0])/float64(w.aim()), float64(waits[1])/float64(w.aim())
	}
	sent := len(b.waits) + b.Dropped
	s[drops] = float64(b.Dropped) / float64(max(sent, 1))
	theirs := 0
	for _, c := range cubics {
		theirs += c.Acked * cubicPacket
		sent -= c.Acked + c.Lost
	}
	if len(cubics) > 0 {
		s[beside] = sum / float64(len(flows)) / (float64(theirs) / float64(len(cubics)))
		s[goodput] += float64(theirs) / full
		s[drops] = 0 // most drops belong to the CUBIC flows
	}
	s[timeouts] = float64(n.timeouts()-before) / span.Seconds() / float64(len(flows))
	n.must()
	return s
}

// complete starts flows of a fixed size at once, and measures the time until all have finished.
func (w *scenario) complete(n *Network, flows []*Bulk, b *Bottleneck) score {
	var s score
	start, before := n.now, n.timeouts()
	for _, f := range flows {
		f.Start(0)
	}
	n.RunUntil(10*time.Second, func() bool { return !slices.ContainsFunc(flows, func(f *Bulk) bool { return f.Done < f.Limit }) })
	last := start
	for _, f := range flows {
		last = max(last, f.Finished)
	}
	ideal := float64(w.flows*w.each)/w.payload()*8/float64(w.rate) + w.rtt.Seconds()
	s[slowest] = last.Sub(start).Seconds() / ideal
	s[drops] = float64(b.Dropped) / float64(len(b.waits)+b.Dropped)
	s[timeouts] = float64(n.timeouts()-before) / float64(len(flows))
	n.must()
	return s
}

// pass advances the time by d.
func (n *Network) pass(d time.Duration) {
	end := n.now.Add(d)
	n.RunUntil(2*d+time.Second, func() bool { return n.now >= end })
}

func (n *Network) timeouts() (sum uint64) {
	for _, h := range n.hosts {
		sum += h.Engine.Stats().Timeouts
	}
	return sum
}

// must stops the run after a failure, because the figures of a faulty world are meaningless.
func (n *Network) must() {
	if len(n.broken) > 0 {
		panic(fmt.Sprint(n.broken))
	}
}

// The limits that figures must respect.
var (
	fills      = bar{goodput, 0.9, 0}
	fillsFast  = bar{goodput, 0.8, 0}
	fair       = bar{fairness, 0.95, 0}
	shortQueue = bar{standing, 0, 2}
	keeps      = bar{drops, 0, 0.02}
	shares     = bar{beside, 0.3, 3}
	survives   = bar{beside, 0.1, 0}
	inTime     = bar{slowest, 0, 3}
)

// scenarios lists all worlds, grouped by kind.
func scenarios() []*scenario {
	return slices.Concat(paths(), buffers(), staggered(), marked(), jittery(), besideCubic(), lossy(), incasts())
}

func paths() (all []*scenario) {
	for _, p := range []struct {
		rate int
		rtt  time.Duration
		bar  bar
	}{
		{1e7, 10 * time.Millisecond, fills},
		{1e8, time.Millisecond, fills},
		{1e8, 100 * time.Millisecond, fills},
		{1e9, 20 * time.Microsecond, fills},
		{1e9, 200 * time.Microsecond, fills},
		{1e9, 10 * time.Millisecond, fills},
		{1e9, 50 * time.Millisecond, fills},
		{1e10, 20 * time.Microsecond, fills},
		{1e10, 200 * time.Microsecond, fills},
		{1e10, 10 * time.Millisecond, fills},
		{1e11, 10 * time.Microsecond, fillsFast},
		{1e11, 100 * time.Microsecond, fillsFast},
	} {
		for _, packet := range []int{packet1500, packet9000} {
			all = append(all, &scenario{
				name: fmt.Sprintf("path %s x %v, MTU %d", rateName(p.rate), p.rtt, packet+28), rate: p.rate, rtt: p.rtt, packet: packet, buffer: 2, flows: 1,
				quick: p.rate == 1e9 && p.rtt == 200*time.Microsecond, bars: []bar{p.bar, keeps},
			})
		}
	}
	return all
}

func rateName(rate int) string {
	if rate >= 1e9 {
		return fmt.Sprintf("%d Gb/s", rate/1e9)
	}
	return fmt.Sprintf("%d Mb/s", rate/1e6)
}

func buffers() (all []*scenario) {
	for _, rtt := range []time.Duration{200 * time.Microsecond, 10 * time.Millisecond} {
		for _, buffer := range []float64{0.1, 0.5, 1, 4, 20} {
			for _, flows := range []int{1, 4} {
				all = append(all, &scenario{
					name: fmt.Sprintf("%d flows, 1 Gb/s x %v, buffer %g", flows, rtt, buffer), rate: 1e9, rtt: rtt, packet: packet1500, buffer: buffer, flows: flows,
					bars: []bar{keeps},
				})
			}
		}
		all = append(all, &scenario{
			name: fmt.Sprintf("policer 500 Mb/s x %v, 64 kB", rtt), rate: 5e8, rtt: rtt, packet: packet1500, police: true, flows: 1,
			buffer: 64e3 / (5e8 / 8 * rtt.Seconds()), bars: []bar{keeps},
		})
	}
	return all
}

func staggered() (all []*scenario) {
	for _, rtt := range []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
		for _, flows := range []int{4, 8} {
			all = append(all, &scenario{
				name: fmt.Sprintf("%d flows every 400 ms, 1 Gb/s x %v", flows, rtt), rate: 1e9, rtt: rtt, packet: packet1500, flows: flows,
				buffer: 4e6 / (1e9 / 8 * rtt.Seconds()), every: 400 * time.Millisecond, settle: 4 * time.Second, bars: []bar{fills, fair, shortQueue},
			})
		}
	}
	return all
}

// marked lists networks whose routers mark packets: from a short queue on, as in data centers, or from a long one.
func marked() (all []*scenario) {
	for _, p := range []struct {
		rtt    time.Duration
		mark   float64
		center bool
	}{{200 * time.Microsecond, 0.2, true}, {200 * time.Microsecond, 0.5, false}, {10 * time.Millisecond, 0.5, false}} {
		for _, flows := range []int{1, 4} {
			s := &scenario{
				name: fmt.Sprintf("%d flows, 1 Gb/s x %v, marks from %g", flows, p.rtt, p.mark), rate: 1e9, rtt: p.rtt, packet: packet1500, flows: flows,
				buffer: 4, mark: p.mark, center: p.center, bars: []bar{fills, shortQueue, keeps},
			}
			if p.center {
				s.name += ", data center"
			}
			all = append(all, s)
		}
	}
	return all
}

func jittery() (all []*scenario) {
	for _, rtt := range []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 10 * time.Millisecond} {
		for _, jitter := range []float64{0.1, 1, 10} {
			s := scenario{rate: 1e9, rtt: rtt, packet: packet1500, flows: 1, buffer: max(4, 2*jitter)}
			order, other := s, s
			order.name, order.jitter, order.bars = fmt.Sprintf("1 Gb/s x %v, jitter %g RTT in order", rtt, jitter), jitter, []bar{{goodput, 0.8, 0}}
			order.settle = min(max(25000*rtt, time.Second), 30*time.Second) // the controller needs many round trips to learn the mean delay
			order.quick = jitter == 10 && rtt == 20*time.Microsecond
			all = append(all, &order)
			if jitter <= 1 {
				other.name, other.reorder = fmt.Sprintf("1 Gb/s x %v, jitter %g RTT reorders", rtt, jitter), jitter
				all = append(all, &other)
			}
		}
	}
	return all
}

func besideCubic() (all []*scenario) {
	for _, p := range []struct {
		rate int
		rtt  time.Duration
	}{{1e9, 200 * time.Microsecond}, {1e9, 2 * time.Millisecond}, {1e8, 20 * time.Millisecond}} {
		for _, buffer := range []float64{0.5, 1, 4, 20} {
			s := &scenario{
				name: fmt.Sprintf("beside CUBIC, %s x %v, buffer %g", rateName(p.rate), p.rtt, buffer), rate: p.rate, rtt: p.rtt, packet: packet1500,
				buffer: buffer, flows: 1, cubic: 1, bars: []bar{shares},
			}
			if buffer > 4 {
				s.bars = []bar{survives}
				s.settle = 45 * time.Second // a cycle of CUBIC takes up to 14 s in such a buffer: after 5 s a second CUBIC flow itself has a share of 0.075
			}
			all = append(all, s)
		}
	}
	return all
}

func lossy() (all []*scenario) {
	for _, loss := range []int{1, 10, 100, 500} {
		all = append(all, &scenario{
			name: fmt.Sprintf("1 Gb/s x 200 us, loss %g %%", float64(loss)/100), rate: 1e9, rtt: 200 * time.Microsecond,
			packet: packet1500, flows: 1, buffer: 4, loss: loss,
		})
	}
	for _, loss := range []int{100, 1000, 3000} {
		all = append(all, &scenario{
			name: fmt.Sprintf("1 Gb/s x 200 us, ACK loss %d %%", loss/100), rate: 1e9, rtt: 200 * time.Microsecond,
			packet: packet1500, flows: 1, buffer: 4, ackLoss: loss, bars: []bar{{goodput, 0.8, 0}},
		})
	}
	for _, drift := range []int{-50, 50} {
		all = append(all, &scenario{
			name: fmt.Sprintf("1 Gb/s x 200 us, drift %d ppm", drift), rate: 1e9, rtt: 200 * time.Microsecond,
			packet: packet1500, flows: 1, buffer: 4, drift: drift, settle: 15 * time.Second, bars: []bar{fills, shortQueue},
		})
	}
	return all
}

func incasts() (all []*scenario) {
	for _, flows := range []int{2, 8, 32, 128, 256} {
		for _, packet := range []int{packet1500, packet9000} {
			s := &scenario{
				name: fmt.Sprintf("incast %d, 10 Gb/s x 20 us, MTU %d", flows, packet+28), rate: 1e10, rtt: 20 * time.Microsecond, packet: packet, flows: flows,
				buffer: 1e6 / 25e3, each: 512 << 10, bars: []bar{inTime},
			}
			if flows > 128 {
				s.bars = nil
			}
			all = append(all, s)
		}
	}
	return all
}
