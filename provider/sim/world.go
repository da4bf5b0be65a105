package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// world is everything that follows from one seed: hosts, network and applications.
type world struct {
	net      *Network
	rng      *rand.Rand
	lanes    *rand.Rand // generator for bulk paths
	longs    *rand.Rand // generator for long packets
	floods   *rand.Rand // generator for drawFloods
	links    *rand.Rand // generator for drawLinks
	sessions []*session
	stream   *stream // only in a world with a stream; otherwise nil
	mishaps  int     // random faults still to come
}

func newWorld(seed uint64, o Options) *world {
	if seed%streamEvery == streamEvery-1 {
		return newStreamWorld(seed, o)
	}
	rng := rand.New(rand.NewPCG(seed, 0x776f726c64))
	lanes := rand.New(rand.NewPCG(seed, 0x6c616e65))
	cond := drawConditions(rng)
	cond.drawLanes(lanes)
	floods := rand.New(rand.NewPCG(seed, 0x666c6f6f64))
	cond.drawFloods(floods)
	cond.drawGrants(rand.New(rand.NewPCG(seed, 0x72617465)))
	links := rand.New(rand.NewPCG(seed, 0x6c696e6b))
	cond.drawLinks(links)
	longs := rand.New(rand.NewPCG(seed, 0x6c6f6e67))
	cond.Rates[Split] = longs.IntN(worst[Split])
	for f := range numFaults {
		if o.Without.Has(f) {
			cond.Rates[f] = 0
		}
	}
	w := &world{net: NewNetwork(seed, cond, o.Trace), rng: rng, lanes: lanes, floods: floods, links: links, longs: longs}
	w.net.tap, w.net.secrets = o.Tap, drawSecrets(seed, o)
	if cond.hostile() {
		w.net.used = newUsedPackets(w.net, o.Tap)
		w.net.tap = w.net.used
	}
	hosts, sessions, requests := w.drawSizes()
	atMost := func(n *int, bound int) {
		if bound > 0 {
			*n = min(*n, bound)
		}
	}
	atMost(&hosts, max(o.Hosts, 2*min(o.Hosts, 1)))
	atMost(&sessions, o.Sessions)
	atMost(&requests, o.Requests)
	w.build(hosts, sessions, requests, o.Engines)
	return w
}

// mostRequests is the largest number of requests of each side of a session.
const mostRequests = 500

// drawSizes draws the size of the world. Most worlds are small. In worlds with many hosts, each host does little.
func (w *world) drawSizes() (hosts, sessions, requests int) {
	switch k := w.rng.IntN(100); {
	case k < 80:
		hosts = 2 + w.rng.IntN(3)
	case k < 94:
		hosts = 5 + w.rng.IntN(4)
	case k < 99:
		hosts = 9 + w.rng.IntN(8)
	default:
		hosts = 17 + w.rng.IntN(48)
	}
	sessions = 1 + w.rng.IntN(hosts+hosts/2)
	requests = []int{10, 20, 60, 150, mostRequests}[w.rng.IntN(5)]
	return hosts, sessions, min(requests, 10+1500/sessions)
}

// mostEngines is the largest number of engines of a host.
const mostEngines = 4

// maxPackets are the largest packets of hosts: common MTUs, and sizes that no common MTU gives.
var maxPackets = [...]int{1200, 1408, 1472, 4096, 8972, 16384, 65507}

func (w *world) build(hosts, sessions, requests, engines int) {
	rates := &w.net.Rates
	mtu := w.rng.IntN(len(maxPackets))
	for range hosts {
		if other := w.rng.IntN(len(maxPackets)); chance(w.rng, rates[UnequalMTU]) {
			mtu = other
		}
		cfg := HostConfig{
			Engine: provider.Config{
				HeldBytes: []int{32 << 10, 160 << 10, 600 << 10, 64 << 20}[w.rng.IntN(4)],
				IdleAfter: []time.Duration{50 * time.Microsecond, 2 * time.Millisecond, time.Second}[w.rng.IntN(3)],
			},
			MaxPacket: maxPackets[mtu],
			FragSize:  []int{3840, 2048, 333, 97, 61, 1}[w.rng.IntN(6)],
			TxFrames:  []int{24, 40, 80, 200}[w.rng.IntN(4)],
			TxHold:    between(w.rng, time.Microsecond, 50*time.Microsecond),
			Turn:      between(w.rng, 2*time.Microsecond, 10*time.Microsecond),
			Wake:      between(w.rng, time.Microsecond, 30*time.Microsecond),
			Clock:     between(w.rng, 0, time.Hour),
		}
		cfg.Engine.KeyLimits = w.net.secrets.limits
		cfg.Engines, cfg.Landing = w.drawEngines(engines)
		if small := 4 + w.rng.IntN(60); chance(w.rng, rates[Overflow]) {
			cfg.RxRing = small
		}
		w.drawLink(&cfg)
		w.drawLane(&cfg)
		w.drawLong(&cfg)
		w.drawInlet(w.net.AddHost(cfg))
	}
	w.drawSplits()
	if w.net.hostile() {
		h := w.net.hosts[hosts-1]
		h.forger = newForger(h, rand.New(rand.NewPCG(w.rng.Uint64(), 3)))
	}
	a, b := w.pair()
	samePair := w.rng.IntN(4) == 0
	for i := range sessions {
		again := max(w.rng.IntN(6)-3, 0)
		w.sessions = append(w.sessions, w.net.newSession("s"+strconv.Itoa(i)+".", uint16(1000+i), a, b, requests, again))
		if !samePair {
			a, b = w.pair()
		}
	}
	if w.rng.IntN(2) == 0 {
		w.mishaps = 1 + w.rng.IntN(6)
		w.net.After(between(w.rng, 0, 50*time.Millisecond), w.randomFault)
	}
}

// drawEngines draws the number of engines of a host, one for most hosts, and how packets are spread over them.
func (w *world) drawEngines(atMost int) (n int, l Landing) {
	n, l = 2+w.rng.IntN(mostEngines-1), Landing(w.rng.IntN(int(numLandings)))
	if w.rng.IntN(4) > 0 {
		n = 1
	}
	if atMost > 0 {
		n = min(n, atMost)
	}
	return n, l
}

// drawLink draws the faults of a host's sending side and of its clock.
func (w *world) drawLink(cfg *HostConfig) {
	rates := &w.net.Rates
	if loss := 1 + w.rng.IntN(worst[Loss]); chance(w.rng, rates[OneWayLoss]) {
		cfg.SendLoss = loss
	}
	if drift := w.rng.IntN(2*mostDrift+1) - mostDrift; chance(w.rng, rates[Drift]) {
		cfg.Drift = drift
		w.net.Happened[Drift]++
	}
}

// mostDrift is the largest drift of a clock in parts per million, as of cheap oscillators.
const mostDrift = 100

// Links in front of hosts: rates in bits per second, and buffers in tenths of a bandwidth-delay product, with room for at least two
// packets.
var (
	inletRates   = [...]int{2e7, 1e8, 1e9}
	inletBuffers = [...]int{1, 5, 10, 40, 200}
)

// crossPackets is the largest number of packets that a TCP flow of a world sends.
const crossPackets = 3000

// drawInlet draws the bottleneck in front of a host, and other traffic through it.
func (w *world) drawInlet(h *Host) {
	rates := &w.net.Rates
	b := &Bottleneck{Rate: inletRates[w.rng.IntN(len(inletRates))]}
	rtt := 2 * w.net.Delay
	bdp := int(int64(b.Rate) / 8 * int64(rtt) / int64(time.Second))
	b.Queue = max(bdp*inletBuffers[w.rng.IntN(len(inletBuffers))]/10, 2*(h.cfg.MaxPacket+wireOverhead))
	after := between(w.rng, 0, 20*time.Millisecond)
	b.Police = chance(w.rng, rates[Police])
	if !b.Police && !chance(w.rng, rates[Tail]) {
		return
	}
	h.Narrow(b)
	if chance(w.rng, rates[CrossTraffic]) {
		w.net.After(after, func() { w.net.NewCubic(b, rtt, crossPackets) })
	}
}

// hostile reports whether a fault of hostile peers has a rate above zero.
func (c *Conditions) hostile() bool {
	for f := firstHostile; f < numFaults; f++ {
		if c.Rates[f] != 0 {
			return true
		}
	}
	return false
}

// pair draws two hosts.
func (w *world) pair() (a, b *Host) {
	hosts := w.net.hosts
	i := w.rng.IntN(len(hosts))
	return hosts[i], hosts[(i+1+w.rng.IntN(len(hosts)-1))%len(hosts)]
}

// randomFault causes a rare fault. All faults but a restart are shorter than the time after which a peer counts as dead or a SEND
// waits in vain.
func (w *world) randomFault() {
	a, b := w.pair()
	rates := &w.net.Rates
	if d := between(w.rng, 0, 400*time.Millisecond); chance(w.rng, rates[Partition]) {
		w.net.Partition(a, b, d)
	}
	if d := between(w.rng, 0, 100*time.Millisecond); chance(w.rng, rates[Pause]) {
		a.Pause(d)
	}
	if d := between(w.rng, 0, 300*time.Millisecond); chance(w.rng, rates[ClockJump]) && b.ahead < b.cfg.Clock+time.Second {
		b.Leap(d)
	}
	paths, back := uint8(w.rng.Uint32()&w.rng.Uint32()), uint8(w.rng.Uint32()&w.rng.Uint32()) // a quarter of the paths
	if d := between(w.rng, 0, time.Second); chance(w.rng, rates[DeadPath]) {
		w.net.KillPaths(a, b, paths, d)
		w.net.KillPaths(b, a, back, d)
	}
	if size := maxPackets[w.rng.IntN(len(maxPackets))]; chance(w.rng, rates[PathMTU]) {
		w.net.Narrow(a, b, size)
	}
	if size := maxPackets[w.rng.IntN(len(maxPackets))]; chance(w.rng, rates[LinkMTU]) {
		a.Resize(size)
	}
	if d := between(w.rng, 0, 400*time.Millisecond); chance(w.rng, rates[Garble]) {
		w.net.Garble(a, b, []int{0, 100, 1200}[w.rng.IntN(3)], w.rng.IntN(2) == 0, d)
	}
	w.randomLaneFault(a, b)
	w.randomSplit(a, b)
	if chance(w.floods, rates[DaySet]) {
		a.SetDay()
	}
	w.randomLinkFault(a)
	if chance(w.rng, rates[Restart]) {
		w.restart(b)
	}
	if w.mishaps--; w.mishaps > 0 {
		w.net.After(between(w.rng, 0, 100*time.Millisecond), w.randomFault)
	}
}

// restart makes a host lose all state, without notice to peers, with new connection ids and tokens.
func (w *world) restart(h *Host) {
	w.net.Happened[Restart]++
	w.net.trace.note(w.net.now, "restart", h.name)
	w.forgetLife(h)
}

// forgetLife begins another life of a host, which knows nothing of the connections of the last one.
func (w *world) forgetLife(h *Host) {
	h.start()
	w.each(func(s *session) {
		for _, x := range []*side{s.a, s.b} {
			if x.host == h && !x.dead {
				s.forgetPeer(x)
			}
		}
	})
}

// each calls f for every session so far, including followers.
func (w *world) each(f func(*session)) {
	for _, s := range w.sessions {
		for ; s != nil; s = s.next {
			f(s)
		}
	}
}

// live runs the world: traffic, endings, and a silent time after which everything must be released.
func (w *world) live() {
	const limit = 10 * time.Minute
	pending := slices.Clone(w.sessions)
	over := func() bool {
		for len(pending) > 0 {
			s := &pending[len(pending)-1]
			for (*s).over && (*s).next != nil {
				*s = (*s).next
			}
			if !(*s).over {
				return false
			}
			pending = pending[:len(pending)-1]
		}
		return w.stream.over()
	}
	if !w.net.RunUntil(limit, over) {
		w.net.Fail("the applications are not done")
		return
	}
	if w.stream != nil {
		return // its connection stays open
	}
	silent := w.net.now.Add(30 * time.Second)
	w.net.RunUntil(time.Minute, func() bool { return w.net.now >= silent })
	if len(w.net.broken) == 0 {
		for _, h := range w.net.hosts {
			if h.pool != nil {
				h.pool.close()
			}
			h.Audit()
		}
		w.net.auditSecrets()
		w.net.used.audit()
	}
}

// await closes a side after its provider has detected that the peer is gone, which must happen before by.
func (s *session) await(x *side, by clock.Time) {
	if s.given || s.over {
		return
	}
	switch x.ctr.State() {
	case provider.CtrConnecting, provider.CtrCompleting, provider.CtrAccepting, provider.CtrEstablished, provider.CtrDisconnecting,
		provider.CtrPeerGone:
		if s.net.now > by {
			s.net.Fail("%s: still %v with a peer that is gone", x.name, x.ctr.State())
			return
		}
		s.net.After(time.Second, func() { s.await(x, by) })
	default:
		s.abandon()
	}
}

func (w *world) count(r *Report) {
	if w.stream != nil {
		r.Streams++
		r.Requests += uint64(w.stream.done)
	}
	w.each(func(s *session) {
		for _, x := range []*side{s.a, s.b} {
			r.Requests += x.done.requests
			r.Receives += x.done.receives
		}
	})
	for _, h := range w.net.hosts {
		var s provider.Stats
		for _, q := range h.queues {
			s.Add(q.engine.Stats())
		}
		r.Engines += len(h.queues)
		r.Packets += s.PacketsOut
		r.Retransmits += s.Retransmits
		r.Spurious += s.SpuriousTimeouts
		r.Bulk += s.BulkPacketsIn
		r.BulkProven += s.BulkProven
		r.BulkLeft += s.BulkLeft
		r.LongProven += s.LongProven
		r.LongLeft += s.LongLeft
		r.Relayed += s.Relayed
		r.Moved += s.Moved
		r.KeyUpdates += s.KeyUpdates
		r.Handshakes += s.Handshakes
		r.HandshakesFailed += s.HandshakesFailed
		for i, n := range s.Drops {
			r.Drops[i] += n
		}
	}
	r.Happened, r.Met = w.net.Happened, w.net.met
	r.FastRegistered = w.net.fastRegistered
	if u := w.net.used; u != nil {
		r.Met.SpoiltSealed = u.spoilt
	}
}
