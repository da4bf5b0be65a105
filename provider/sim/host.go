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
	// FragSize is how many bytes of a packet go into one receive frame. Small odd sizes make every header straddle.
	FragSize int
	// RxRing is how many packets wait at most for the engine to look; zero for no limit.
	RxRing int
	// TxFrames bounds the transmit frames; the engine waits when they are used up.
	TxFrames int
	// TxHold is how long the device keeps a transmit frame at most.
	TxHold time.Duration
	// Turn and Wake are how long a turn takes, and a sleeping engine to notice a packet, at most.
	Turn, Wake time.Duration
	// Clock is what the host's clock shows more than the network's.
	Clock time.Duration
	// Drift is how much faster the host's clock runs than the network's, in parts per million.
	Drift int
	// SendLoss is how many of 10,000 packets that the host sends get lost, beside other losses.
	SendLoss int
	// Engines is how many queues the NIC has, and so how many engines the host; zero for one. Landing is how the NIC spreads
	// packets over them.
	Engines int
	Landing Landing
	// Lane gives the host a bulk lane.
	Lane bool
	// Sockets makes the host's only port its lane, as where sockets receive everything.
	Sockets bool
	// Stamps has the host know when packets came, however long they waited there.
	Stamps bool
}

// Host is one adapter on the network: an engine for each queue of its NIC (link.go), that share memory and connections.
type Host struct {
	Engine *provider.Engine // the leading engine
	Memory *provider.Memory
	IP     [16]byte

	cfg         HostConfig
	name        string
	net         *Network
	rng         *rand.Rand
	queues      []*queue
	order       []*queue   // the same, as the last turn ran them
	hashKey     uint64     // what the NIC's hash of a flow depends on
	named       uint64     // end of the memory that packets may refer to
	runAt       clock.Time // when the engine wants to be run, by the network's clock
	queuedAt    clock.Time // the earliest event for it
	pausedUntil clock.Time
	ahead       time.Duration // what the host's clock shows more than the network's
	unstamped   clock.Time    // packets have no stamps before
	widest      int           // what the link carried at most before it was resized
	turns       uint64
	life        int         // how often it started
	inlet       *Bottleneck // what packets to the host must pass; nil for nothing
	laneInlet   *Bottleneck // the same for packets by the bulk path; nil for inlet
	app         func() bool // called after every turn; true when it posted; nil for none
	forger      *forger     // spoils what the host sends; nil for an honest one
	pool        *pool       // its shared receives; nil for none
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

// start gives the host new engines that know nothing.
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

// networkTime returns when the host's clock will show at.
func (h *Host) networkTime(at clock.Time) clock.Time {
	at = at.Add(-h.ahead)
	return at.Add(-time.Duration(int64(at) * int64(h.cfg.Drift) / (1e6 + int64(h.cfg.Drift))))
}

// Do runs f as the owner of the engine that leads, with its time up to date.
func (h *Host) Do(f func(*provider.Engine)) {
	h.queues[0].catchUp()
	f(h.Engine)
	h.Poke()
}

// catchUp runs the engine, so that its time is up to date for a call, and sees to it that it runs once more afterwards.
func (q *queue) catchUp() {
	q.engine.Run(q.host.clock())
	q.busy = true
}

// owned is a connector or a queue pair: at home on any engine of its host.
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

// Poke says that a doorbell was rung.
func (h *Host) Poke() { h.wake(h.net.now) }

// wake makes the engine run at a time at the latest.
func (h *Host) wake(at clock.Time) {
	h.runAt = min(h.runAt, at)
	h.queue()
}

// queue makes sure that there is an event when the engine is to run.
func (h *Host) queue() {
	at := max(h.runAt, h.pausedUntil)
	if h.runAt == clock.Never || at >= h.queuedAt {
		return
	}
	h.queuedAt = at
	h.net.seq++
	h.net.events.push(event{at: at, seq: h.net.seq, host: h})
}

// turn is the event that queue made.
func (h *Host) turn() {
	if h.queuedAt > h.net.now {
		return // a later one was put before it, or it was overtaken
	}
	h.queuedAt = clock.Never
	if h.runAt <= h.net.now && h.pausedUntil <= h.net.now {
		h.run()
	}
	h.queue()
}

// Pause takes the host's core away for d.
func (h *Host) Pause(d time.Duration) {
	h.pausedUntil = h.net.now.Add(d)
	h.net.Happened[Pause]++
	h.net.trace.note(h.net.now, "pause", h.name)
}

// Resize makes the host's link carry packets of up to size bytes from now on.
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

// Leap puts the host's clock forward by d, as when a virtual machine was stopped. Monotonic clocks never go back.
func (h *Host) Leap(d time.Duration) {
	h.ahead += d
	h.net.Happened[ClockJump]++
	h.net.trace.note(h.net.now, "leap", h.name)
	h.Poke()
}

// violationEvery is how many turns pass between two looks at the engines' invariants.
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

// runEngines lets the engines take a turn, in any order, as a poller or as the goroutine behind it would. One of several may be
// late: what the others leave for it waits until the next turn.
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

// Audit checks that every frame, path, region and record came back, once nothing is connected and nothing is under way.
func (h *Host) Audit() {
	for _, q := range h.queues {
		q.audit()
	}
	if n := h.Memory.Count(); n != 0 {
		h.net.Fail("%s: %d regions left", h.name, n)
	}
}

// audit checks what the engine of a queue has left: every frame is back with the queue it came from.
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

// poison fills frames whose owner gave them back: whoever still reads them will notice.
var poison = bytes.Repeat([]byte{0xdb}, wire.MaxPacket)
