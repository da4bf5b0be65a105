package sim

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// HostConfig describes a host.
type HostConfig struct {
	Engine    provider.Config
	MaxPacket int
	// FragSize is the number of packet bytes in one receive frame. Small odd sizes make every header cross frames.
	FragSize int
	// RxRing is the largest number of packets that wait for the engine; zero for no limit.
	RxRing int
	// TxFrames is the number of transmit frames. The engine waits while all are in use.
	TxFrames int
	// TxHold is the longest time that the device holds a transmit frame.
	TxHold time.Duration
	// Turn is the longest duration of a poll. Wake is the longest time until a sleeping engine notices a packet.
	Turn, Wake time.Duration
	// Clock is the offset of the host's clock from the network's.
	Clock time.Duration
	// Drift is how much faster the host's clock runs than the network's, in parts per million.
	Drift int
	// SendLoss is the number of packets lost out of 10,000 that the host sends, in addition to other losses.
	SendLoss int
	// Engines is the number of NIC queues, and so of engines; zero for one. Landing is how the NIC spreads packets over them.
	Engines int
	Landing Landing
	// Lane gives the host a bulk path.
	Lane bool
	// Sockets makes the bulk path the host's only port, as on plain UDP sockets.
	Sockets bool
	// Stamps means that the host knows when packets arrived, however long they waited.
	Stamps bool
}

// Host is one adapter on the network: one engine for each queue of its NIC (link.go). Its engines share memory and connections.
type Host struct {
	Engine *provider.Engine // the leading engine
	Memory *provider.Memory
	IP     [16]byte

	cfg         HostConfig
	name        string
	net         *Network
	rng         *rand.Rand
	queues      []*queue
	order       []*queue   // the queues in the order in which the last poll ran them
	hashKey     uint64     // seed of the NIC's flow hash
	named       uint64     // end of the memory that packets may reference
	runAt       clock.Time // next poll that the engine requested, in network time
	queuedAt    clock.Time // earliest event for it
	pausedUntil clock.Time
	ahead       time.Duration // offset of the host's clock from the network's
	downUntil   clock.Time    // it has no link before
	unstamped   clock.Time    // packets have no arrival time before
	widest      int           // largest packet of the link before it was resized
	turns       uint64
	life        int         // number of starts
	inlet       *Bottleneck // bottleneck in front of the host; nil for none
	laneInlet   *Bottleneck // bottleneck in front of its bulk path; nil for inlet
	app         func() bool // called after every poll; returns true if it posted; nil for none
	forger      *forger     // changes what the host sends; nil for an honest host
	pool        *pool       // its shared receive queue; nil for none
	lane        *Lane       // nil for none
}

// AddHost adds a host.
func (n *Network) AddHost(cfg HostConfig) *Host {
	i := len(n.hosts)
	h := &Host{
		cfg: cfg, net: n, IP: hostIP(i), name: "host" + strconv.Itoa(i), ahead: cfg.Clock, queuedAt: clock.Never,
		rng: rand.New(rand.NewPCG(n.rng.Uint64(), uint64(i))),
	}
	n.hosts = append(n.hosts, h)
	n.byIP[h.IP] = h
	h.start()
	h.planLanding()
	return h
}

// start gives the host new engines without state.
func (h *Host) start() {
	h.life++
	h.openLane()
	h.pool = nil
	h.queues = nil
	var links []provider.Link
	for i := range max(h.cfg.Engines, 1) {
		q := h.newQueue(i, h.cfg.TxFrames)
		h.queues, links = append(h.queues, q), append(links, q)
	}
	h.order = slices.Clone(h.queues)
	h.Memory = provider.NewMemory(rand.New(rand.NewPCG(h.rng.Uint64(), 1)))
	engines := provider.NewGroup(h.cfg.Engine, links, h.Memory, rand.New(rand.NewPCG(h.rng.Uint64(), 2)))
	h.Engine = engines[0]
	for i, q := range h.queues {
		q.engine = engines[i]
		q.engine.SetTap(h.net.tap)
	}
	h.runAt = h.net.now
	h.queue()
}

// clock returns the host's time.
func (h *Host) clock() clock.Time {
	return h.net.now.Add(h.ahead + time.Duration(int64(h.net.now)*int64(h.cfg.Drift)/1e6))
}

// networkTime returns the network time at which the host's clock will show at.
func (h *Host) networkTime(at clock.Time) clock.Time {
	at = at.Add(-h.ahead)
	return at.Add(-time.Duration(int64(at) * int64(h.cfg.Drift) / (1e6 + int64(h.cfg.Drift))))
}

// Do runs f as the owner of the leading engine, with the time up to date.
func (h *Host) Do(f func(*provider.Engine)) {
	h.queues[0].catchUp()
	f(h.Engine)
	h.Poke()
}

// catchUp runs the engine, so that its time is up to date for a call, and makes it run once more afterwards.
func (q *queue) catchUp() {
	q.engine.Run(q.host.clock())
	q.busy = true
}

// owned is a connector or a queue pair, at home on any engine of its host.
type owned interface {
	Own(f func(*provider.Engine))
}

// Own runs f as the owner of x, with the time of all engines up to date.
func (h *Host) Own(x owned, f func(*provider.Engine)) {
	for _, q := range h.queues {
		q.catchUp()
	}
	x.Own(f)
	h.Poke()
}

// Poke reports that a doorbell was rung.
func (h *Host) Poke() { h.wake(h.net.now) }

// wake makes the engine run at the given time at the latest.
func (h *Host) wake(at clock.Time) {
	h.runAt = min(h.runAt, at)
	h.queue()
}

// queue adds an event for the next run of the engine, if there is none.
func (h *Host) queue() {
	at := max(h.runAt, h.pausedUntil)
	if h.runAt == clock.Never || at >= h.queuedAt {
		return
	}
	h.queuedAt = at
	h.net.seq++
	h.net.events.push(event{at: at, seq: h.net.seq, host: h})
}

// turn is the event that queue adds.
func (h *Host) turn() {
	if h.queuedAt > h.net.now {
		return // a later or an earlier event replaces this one
	}
	h.queuedAt = clock.Never
	if h.runAt <= h.net.now && h.pausedUntil <= h.net.now {
		h.run()
	}
	h.queue()
}

// Pause stops the host for d.
func (h *Host) Pause(d time.Duration) {
	h.pausedUntil = h.net.now.Add(d)
	h.net.Happened[Pause]++
	h.net.trace.note(h.net.now, "pause", h.name)
}

// Resize changes the size of the largest packet of the host's link.
func (h *Host) Resize(size int) {
	h.net.Happened[LinkMTU]++
	h.net.trace.note(h.net.now, "link "+strconv.Itoa(size), h.name)
	h.widest = max(h.widest, h.cfg.MaxPacket)
	for _, q := range h.queues {
		q.catchUp()
	}
	h.cfg.MaxPacket = size
	for _, q := range h.queues {
		q.engine.Resized()
	}
	h.Poke()
}

// Leap moves the host's clock forward by d, as if a virtual machine had been stopped. Monotonic clocks never go back.
func (h *Host) Leap(d time.Duration) {
	h.ahead += d
	h.net.Happened[ClockJump]++
	h.net.trace.note(h.net.now, "leap", h.name)
	h.Poke()
}

// violationEvery is the number of polls between two checks of the engines' invariants.
const violationEvery = 16

func (h *Host) run() {
	h.turns++
	now := h.net.now
	h.runEngines()
	busy := h.app != nil && h.app()
	if h.turns%violationEvery == 0 {
		for _, q := range h.queues {
			h.check(q.engine.Violation())
		}
	}
	for _, q := range h.queues {
		busy = busy || q.busy || len(q.inbox) > 0 || q.engine.Called()
	}
	turn := between(h.rng, time.Microsecond, h.cfg.Turn)
	if busy {
		h.runAt = now.Add(turn)
		return
	}
	h.runAt = clock.Never
	next := clock.Never
	for _, q := range h.queues {
		next = min(next, q.engine.NextDeadline())
	}
	if next != clock.Never {
		h.runAt = h.networkTime(next)
		if h.runAt <= now {
			h.runAt = now.Add(turn)
		}
	}
}

// runEngines polls the engines in any order. One of several may not run, so that what other engines pass to it waits until the next
// poll.
func (h *Host) runEngines() {
	several := len(h.order) > 1
	if several {
		h.rng.Shuffle(len(h.order), func(i, j int) { h.order[i], h.order[j] = h.order[j], h.order[i] })
	}
	for _, q := range h.order {
		switch {
		case several && h.rng.IntN(4) == 0:
		case h.rng.IntN(2) == 0:
			q.busy = q.engine.Glance(h.clock())
		default:
			q.busy = q.engine.Run(h.clock())
		}
	}
}

func (h *Host) check(violation string) {
	if violation != "" {
		h.net.Fail("%s: %s", h.name, violation)
	}
}

// Audit checks that every frame, path, region and record was returned. It is called when nothing is connected.
func (h *Host) Audit() {
	for _, q := range h.queues {
		q.audit()
	}
	if n := h.Memory.Count(); n != 0 {
		h.net.Fail("%s: %d regions left", h.name, n)
	}
}

// audit checks that every frame is back in its queue.
func (q *queue) audit() {
	h := q.host
	h.check(q.engine.Leftover())
	transmit := q.engine.FramesHeld()
	if len(q.rx) != 0 {
		h.net.Fail("%s: %d receive frames out", q.name, len(q.rx))
	}
	if len(q.txOut) != transmit {
		h.net.Fail("%s: %d transmit frames out, the engine has %d", q.name, len(q.txOut), transmit)
	}
	if len(q.txFree)+len(q.txOut) != len(q.tx) {
		h.net.Fail("%s: %d of %d transmit frames are lost", q.name, len(q.tx)-len(q.txFree)-len(q.txOut), len(q.tx))
	}
	if q.paths.open != 0 || q.bulk.open != 0 {
		h.net.Fail("%s: %d paths left, and %d by the bulk lane", q.name, q.paths.open, q.bulk.open)
	}
}

// poison fills frames that were returned, so that a later read is detected.
var poison = bytes.Repeat([]byte{0xdb}, wire.MaxPacket)
