package sim

import (
	"bytes"
	"math/rand/v2"
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
}

// Host is one engine on the network. Its link is in link.go.
type Host struct {
	Engine *provider.Engine
	Memory *provider.Memory
	IP     [16]byte

	cfg         HostConfig
	name        string
	net         *Network
	rng         *rand.Rand
	runAt       clock.Time // when the engine wants to be run, by the network's clock
	queuedAt    clock.Time // the earliest event for it
	pausedUntil clock.Time
	ahead       time.Duration // what the host's clock shows more than the network's
	widest      int           // what the link carried at most before it was resized
	turns       uint64
	life        int         // how often it started
	inlet       *Bottleneck // what packets to the host must pass; nil for nothing
	app         func() bool // called after every turn; true when it posted; nil for none
	forger      *forger     // spoils what the host sends; nil for an honest one
	pool        *pool       // its shared receives; nil for none

	link
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
	return h
}

// start gives the host a new engine that knows nothing.
func (h *Host) start() {
	h.life++
	h.pool = nil
	h.link = newLink(h.cfg.TxFrames)
	h.Memory = provider.NewMemory(rand.New(rand.NewPCG(h.rng.Uint64(), 1)))
	h.Engine = provider.New(h.cfg.Engine, h, h.Memory, rand.New(rand.NewPCG(h.rng.Uint64(), 2)))
	h.runAt = h.net.now
	h.queue()
}

// clock is the host's time.
func (h *Host) clock() clock.Time { return h.net.now.Add(h.ahead) }

// Do runs f as the engine's owner, with the engine's time up to date.
func (h *Host) Do(f func(*provider.Engine)) {
	h.Engine.Run(h.clock())
	f(h.Engine)
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
	h.Do(func(e *provider.Engine) {
		h.widest = max(h.widest, h.cfg.MaxPacket)
		h.cfg.MaxPacket = size
		e.Resized()
	})
}

// Leap puts the host's clock forward by d, as when a virtual machine was stopped. Monotonic clocks never go back.
func (h *Host) Leap(d time.Duration) {
	h.ahead += d
	h.net.Happened[ClockJump]++
	h.net.trace.note(h.net.now, "leap", h.name)
	h.Poke()
}

// violationEvery is how many turns pass between two looks at the engine's invariants.
const violationEvery = 16

func (h *Host) run() {
	h.turns++
	now := h.net.now
	busy := h.Engine.Run(h.clock())
	if h.app != nil && h.app() {
		busy = true
	}
	if h.turns%violationEvery == 0 {
		h.check(h.Engine.Violation())
	}
	turn := between(h.rng, time.Microsecond, h.cfg.Turn)
	if busy || len(h.inbox) > 0 {
		h.runAt = now.Add(turn)
		return
	}
	h.runAt = clock.Never
	if next := h.Engine.NextDeadline(); next != clock.Never {
		h.runAt = next.Add(-h.ahead)
		if h.runAt <= now {
			h.runAt = now.Add(turn)
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
	h.check(h.Engine.Leftover())
	transmit, receive := h.Engine.FramesHeld()
	if len(h.rx) != receive || receive != 0 {
		h.net.Fail("%s: %d receive frames out, %d held", h.name, len(h.rx), receive)
	}
	if len(h.txOut) != transmit {
		h.net.Fail("%s: %d transmit frames out, the engine has %d", h.name, len(h.txOut), transmit)
	}
	if len(h.txFree)+len(h.txOut) != len(h.tx) {
		h.net.Fail("%s: %d of %d transmit frames are lost", h.name, len(h.tx)-len(h.txFree)-len(h.txOut), len(h.tx))
	}
	if h.open != 0 {
		h.net.Fail("%s: %d paths left", h.name, h.open)
	}
	if n := h.Memory.Count(); n != 0 {
		h.net.Fail("%s: %d regions left", h.name, n)
	}
	if use := h.Engine.PoolUse(); use != (provider.PoolUse{}) {
		h.net.Fail("%s: connections that are gone have %+v", h.name, use)
	}
}

// poison fills frames whose owner gave them back: whoever still reads them will notice.
var poison = bytes.Repeat([]byte{0xdb}, wire.MaxPacket)
