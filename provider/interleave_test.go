//go:build interleave

package provider

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/interleave"
	"github.com/ndxdp/ndxdp/wire"
)

// The explorer of interleavings runs steps in every order, up to a bound. The participants are applications that post, poll, call
// and close, arriving packets, and the progress goroutines of real shards with real engines. A step is a call of the link, or an
// operation on a lock or an atomic of a shard, doorbell, inbox, work queue or home. No participant may wait for ever. When none can
// take a step, all posted work must have been sent, all arrived packets received, and every connection must belong to one engine.

// stepLink is a link whose calls are steps. Its caller must own the engine.
type stepLink struct {
	*lane
	x      *crossing
	engine int
	ring   interleave.Uint32 // stands for the ring that packets arrive in
}

func (l *stepLink) owned() {
	if s := l.x.shards; len(s) > l.engine && !s[l.engine].mu.Mine() {
		l.x.r.Fail("%s runs an engine that is not its own", l.x.r.Name())
	}
}

func (l *stepLink) Receive(pkts []RxPacket) int {
	l.owned()
	l.ring.Add(1)
	return l.lane.Receive(pkts)
}

func (l *stepLink) Ready() bool {
	l.ring.Load()
	return l.lane.Ready()
}

func (l *stepLink) Transmit(pkts []TxPacket) {
	l.owned()
	if x := l.x; len(x.shards) > 0 && x.qp.home.Load() != x.engines[l.engine] {
		x.r.Fail("engine %d sends for a connection that is not at home there", l.engine)
	}
	l.lane.Transmit(pkts)
}

// stepWaiter sleeps as a step.
type stepWaiter struct {
	r               *interleave.Run
	link            *stepLink
	woken, reminded interleave.Bool
	timed, expired  bool // timed: it pauses for a while, or must poll again after a while; expired: that while is over
}

func (w *stepWaiter) Wait(clock.Time, bool) {
	w.r.Wait(func() bool { return w.woken.Load() || w.link.lane.Ready() })
	w.woken.Swap(false)
}

func (w *stepWaiter) Wake()              { w.woken.Store(true) }
func (w *stepWaiter) Rouse()             { w.Wake() }
func (w *stepWaiter) Shorten(clock.Time) { w.Wake() }

func (w *stepWaiter) Pause(d time.Duration) {
	w.timed, w.expired = d >= 0, false
	w.r.Wait(func() bool { return w.reminded.Load() || w.expired })
	w.timed = false
	w.reminded.Swap(false)
}

func (w *stepWaiter) Remind(d time.Duration) {
	if d == 0 {
		w.reminded.Store(true)
	} else {
		w.timed = true
	}
}

// crossing is a connection between a side with shards, whose interleavings are explored, and a peer that does not take steps after
// the set-up.
type crossing struct {
	r       *interleave.Run
	now     clock.Time
	engines []*Engine
	links   []*stepLink
	waiters []*stepWaiter
	shards  []*Shard // set once steps are counted
	peer    *Engine
	back    *lane // the link of the peer
	land    int   // the queue where packets of the peer arrive
	held    []flight
	holding bool // packets of the peer wait in held
	results []flight
	qp      *QP
	remote  *QP
	ctr     *Connector
	cq      *CQ
}

// Links and memory are reused, because making them takes longer than a run.
var (
	crossingLanes = [2]*lane{newLane(0), newLane(0)}
	crossingBack  = newLane(1)
)

var crossingMem = NewMemory(rand.New(rand.NewPCG(5, 6)))

var crossingRegion, _ = crossingMem.Register(make([]byte, 4096), RightRemoteRead|RightRemoteWrite)

// newCrossing makes a crossing whose application waits for this number of results. Packets in x.results bring them.
func newCrossing(r *interleave.Run, engines, results int) *crossing {
	x := &crossing{r: r, now: clock.Time(time.Second), back: crossingBack}
	var links []Link
	for i := range engines {
		l := &stepLink{lane: crossingLanes[i], x: x, engine: i}
		l.reset(func(f flight) {
			if x.shards == nil {
				x.back.arrive(f)
			}
		})
		x.links, links = append(x.links, l), append(links, l)
	}
	x.back.reset(func(f flight) {
		if x.holding {
			x.held = append(x.held, f)
		} else {
			x.links[x.land].arrive(f)
		}
	})
	x.engines = NewGroup(Config{}, links, crossingMem, rand.New(rand.NewPCG(0, 7)))
	x.peer = New(Config{}, x.back, crossingMem, rand.New(rand.NewPCG(1, 7)))
	x.cq = NewCQ(32)
	made := QPConfig{ReceiveDepth: 4, InitiatorDepth: 4, MaxReceiveSGE: 1, MaxInitiatorSGE: 1, ReceiveCQ: x.cq, InitiatorCQ: x.cq}
	x.qp = x.engines[0].NewQP(made)
	made.ReceiveCQ = NewCQ(32)
	made.InitiatorCQ = made.ReceiveCQ
	x.remote = x.peer.NewQP(made)
	x.connect()
	for range results {
		x.write(x.qp)
		x.holding = true
		x.qp.Push()
		x.settle()
		x.holding = false
	}
	x.results, x.held = x.held, nil
	var shards []*Shard
	for i, e := range x.engines {
		w := &stepWaiter{r: r, link: x.links[i]}
		x.waiters = append(x.waiters, w)
		shards = append(shards, NewShard(e, w, func() clock.Time { return x.now }, func() { r.Fail("an engine panics") }))
	}
	x.shards = shards
	r.Stuck(x.pass)
	r.Check(x.check)
	r.End(func() {
		for _, s := range x.shards {
			s.closing.Store(true)
		}
	})
	return x
}

// settle runs all engines until none has work.
func (x *crossing) settle() {
	for busy := true; busy; {
		x.now += 1000
		busy = x.peer.Run(x.now) || x.back.Ready()
		for i, e := range x.engines {
			busy = e.Run(x.now) || x.links[i].lane.Ready() || e.Called() || busy
		}
	}
}

func (x *crossing) connect() {
	l := x.peer.NewListener()
	at, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	x.must(o)
	x.must(l.Listen(1))
	var got, connected, accepted, completed promise
	k, params := x.peer.NewConnector(), ConnectParams{Inbound: 1, Outbound: 1}
	x.ctr = x.engines[0].NewConnector()
	x.must(l.GetRequest(k, got.finish))
	x.settle()
	x.must(x.ctr.connect(x.qp, wire.Endpoint{IP: pairIP[0]}, at, params, connected.finish))
	x.settle()
	x.must(k.Accept(x.remote, params, accepted.finish))
	x.settle()
	x.must(x.ctr.CompleteConnect(completed.finish))
	x.settle()
	if x.qp.State() != QPReady || x.qp.home.Load() == nil {
		panic("the connection is not there")
	}
}

func (x *crossing) must(o Outcome) {
	if o != OutcomeSuccess {
		panic(o.String())
	}
}

func (x *crossing) write(qp *QP) {
	_, o := (&listed{SGL: []SGE{{Addr: crossingRegion.Base(), Len: 8, Token: crossingRegion.Token()}}, Request: Request{Kind: KindWrite, Length: 8, Addr: crossingRegion.Base(), Token: crossingRegion.Token()}}).post(qp)
	x.must(o)
}

// post posts a request and rings the doorbell, as an application does.
func (x *crossing) post() {
	x.write(x.qp)
	x.qp.Ring()
}

// fromPeer makes the peer send a Write. The packet arrives on a queue when arrive is called.
func (x *crossing) fromPeer(queue int) (arrive func()) {
	x.holding = true
	x.write(x.remote)
	x.peer.Run(x.now)
	x.holding = false
	if len(x.held) == 0 {
		panic("the peer sent nothing")
	}
	flights := x.held
	x.held = nil
	return func() {
		x.links[queue].ring.Add(1)
		for _, f := range flights {
			x.links[queue].arrive(f)
		}
	}
}

// pass advances the time by the pause that a progress goroutine leaves to pollers. It does not fire other timers, which could hide
// a lost wake-up.
func (x *crossing) pass() (helped bool) {
	for _, w := range x.waiters {
		if w.timed && !w.expired {
			w.expired, helped = true, true
		}
	}
	if helped {
		x.now = x.now.Add(takeOver)
	}
	return helped
}

// check describes work that was not done.
func (x *crossing) check() string {
	home := x.qp.home.Load()
	if home == nil || x.qp.conn == nil {
		return "the queue pair is lost"
	}
	if c := x.qp.conn; c.home.Load() != home || c.engine != home || x.ctr.home.Load() != home || x.ctr.engine != home {
		return "a connection, its queue pair and its connector are at home on two engines"
	}
	if x.qp.sq.next != x.qp.sq.posted.Load() && !home.shard.closed {
		return "a post is never run"
	}
	for i, s := range x.shards {
		e := x.engines[i]
		switch {
		case s.closed:
			continue
		case e.inbox.rung():
			return fmt.Sprintf("engine %d sleeps with a doorbell rung", i)
		case e.inbox.waiting.Load() || len(e.inbox.packets)+len(e.inbox.frames)+len(e.inbox.calls) > 0:
			return fmt.Sprintf("engine %d sleeps with something in its inbox", i)
		case x.links[i].lane.Ready():
			return fmt.Sprintf("engine %d sleeps with packets in its ring", i)
		case e.putOff:
			return fmt.Sprintf("engine %d sleeps with half a turn put off", i)
		case !s.Asleep():
			return fmt.Sprintf("no goroutine waits for the packets of engine %d", i)
		case s.Until() > e.NextDeadline():
			return fmt.Sprintf("engine %d sleeps past its deadline", i)
		case len(x.links[i].out) > 0 || x.links[i].finished != "":
			return fmt.Sprintf("engine %d has %d frames %s", i, len(x.links[i].out), x.links[i].finished)
		}
	}
	return ""
}

// do runs f as the owner of the first engine.
func (x *crossing) do(f func(*Engine)) { x.shards[0].Do(f) }

// answer delivers the next packet that brings a result.
func (x *crossing) answer() {
	f := x.results[0]
	x.results = x.results[1:]
	x.links[0].ring.Add(1)
	x.links[0].arrive(f)
}

// armed is a call that ends when a result arrives.
func (x *crossing) armed(patient bool) *Wait {
	w := NewWait()
	w.Patient = patient
	x.r.AtOnce(func() { x.cq.Arm(NotifyAny, w.Finish) })
	return w
}

// sleep is an application that sleeps in a call.
func (x *crossing) sleep(w *Wait) { x.shards[0].Sleep(w) }

func (x *crossing) asleep() { x.sleep(x.armed(false)) }

// interrupted is an application whose sleep is interrupted.
func (x *crossing) interrupted(w *Wait) {
	id := x.cq.Arm(NotifyErrors, w.Finish)
	x.sleep(w)
	x.cq.CancelWaiter(id, OutcomeCanceled)
}

// moveTo moves the connection to another engine, while this goroutine owns the engine that the connection leaves.
func (x *crossing) moveTo(engine int) {
	x.qp.Own(func(e *Engine) {
		if x.qp.home.Load() != e || !e.shard.mu.Mine() {
			x.r.Fail("a call runs without ownership of the queue pair")
		}
		x.qp.conn.moveTo(x.engines[engine])
	})
}

// interleaving is a scenario: the goroutines that take steps.
type interleaving struct {
	name          string
	interruptions int // the maximum; negative for all orders
	start         func(x *crossing)
	results       int // results that the application waits for
}

var shardInterleavings = []interleaving{
	{"two post", 2, func(x *crossing) {
		x.r.Go("poster", x.post)
		x.r.Go("other poster", x.post)
	}, 0},
	{"one posts twice and a packet arrives", 1, func(x *crossing) {
		arrive := x.fromPeer(0)
		x.r.Go("poster", func() { x.post(); x.post() })
		x.r.Go("network", arrive)
	}, 0},
	{"one rings for nothing, one posts", 1, func(x *crossing) {
		x.r.Go("ringer", func() {
			x.qp.Push()
			x.qp.Ring()
		})
		x.r.Go("poster", x.post)
	}, 0},
	{"one polls and goes away, one posts", 1, func(x *crossing) {
		arrive := x.fromPeer(0)
		x.r.Go("poller", func() {
			x.shards[0].Poll()
			x.shards[0].Poll()
		})
		x.r.Go("poster", x.post)
		x.r.Go("network", arrive)
	}, 0},
	{"one polls and sleeps, one posts", 1, func(x *crossing) {
		arrive := x.fromPeer(0)
		x.r.Go("poller", func() {
			arrive()
			x.shards[0].Poll()
			x.shards[0].Release()
		})
		x.r.Go("poster", x.post)
	}, 0},
	{"one looks, one posts, one calls", 1, func(x *crossing) {
		x.r.Go("looker", func() { x.shards[0].Look() })
		x.r.Go("poster", x.post)
		x.r.Go("caller", func() { x.do(func(*Engine) {}) })
	}, 0},
	{"one sleeps and a message arrives", 1, func(x *crossing) {
		x.r.Go("sleeper", x.asleep)
		x.r.Go("network", x.answer)
	}, 1},
	{"one sleeps, a message arrives, one posts", 1, func(x *crossing) {
		x.r.Go("sleeper", x.asleep)
		x.r.Go("network", x.answer)
		x.r.Go("poster", x.post)
	}, 1},
	{"one sleeps twice", 0, func(x *crossing) {
		var again interleave.Bool
		x.r.Go("sleeper", func() {
			x.asleep()
			x.cq.Fetch(make([]Result, 4))
			again.Store(true)
			x.asleep()
		})
		x.r.Go("network", func() {
			x.answer()
			x.r.Wait(again.Load)
			x.answer()
		})
	}, 2},
	{"two sleep and a message arrives", 1, func(x *crossing) {
		one, two := x.armed(false), x.armed(false)
		x.r.Go("sleeper", func() { x.sleep(one) })
		x.r.Go("other sleeper", func() { x.sleep(two) })
		x.r.Go("network", x.answer)
	}, 1},
	{"one sleeps patiently beside another", 1, func(x *crossing) {
		one, two := x.armed(true), x.armed(false)
		x.r.Go("patient", func() { x.sleep(one) })
		x.r.Go("sleeper", func() { x.sleep(two); x.shards[0].PassOn() })
		x.r.Go("network", x.answer)
	}, 1},
	{"one gives up its sleep, one posts", 1, func(x *crossing) {
		w := NewWait()
		x.r.Go("sleeper", func() { x.interrupted(w) })
		x.r.Go("poster", x.post)
		x.r.Go("canceler", w.Interrupt)
	}, 0},
	{"one sleeps, one polls", 1, func(x *crossing) {
		x.r.Go("sleeper", x.asleep)
		x.r.Go("poller", func() { x.shards[0].Poll(); x.shards[0].Poll() })
		x.r.Go("network", x.answer)
	}, 1},
	{"closing beside one who sleeps", 1, func(x *crossing) {
		w := NewWait()
		x.r.Go("sleeper", func() { x.sleep(w) })
		x.r.Go("closer", func() {
			x.shards[0].Close()
			w.Finish(OutcomeDeviceRemoved)
		})
	}, 0},
	{"closing", 1, func(x *crossing) {
		x.r.Go("closer", func() { x.shards[0].Close() })
		x.r.Go("poster", x.post)
		x.r.Go("caller", func() { x.do(func(*Engine) {}) })
	}, 0},
}

var groupInterleavings = []interleaving{
	{"a packet for another engine", 1, func(x *crossing) {
		arrive := x.fromPeer(1)
		x.r.Go("network", arrive)
		x.r.Go("poster", x.post)
	}, 0},
	{"two packets for another engine, one by one", 1, func(x *crossing) {
		first, second := x.fromPeer(1), x.fromPeer(1)
		x.r.Go("network", first)
		x.r.Go("network again", second)
	}, 0},
	{"a move and a post", 1, func(x *crossing) {
		x.r.Go("mover", func() { x.moveTo(1) })
		x.r.Go("poster", x.post)
	}, 0},
	{"a move, a post and a packet on the old queue", 0, func(x *crossing) {
		arrive := x.fromPeer(0)
		x.r.Go("mover", func() { x.moveTo(1) })
		x.r.Go("poster", x.post)
		x.r.Go("network", arrive)
	}, 0},
	{"there and back, and a post", 1, func(x *crossing) {
		x.r.Go("mover", func() {
			x.moveTo(1)
			x.moveTo(0)
		})
		x.r.Go("poster", x.post)
	}, 0},
	{"a move, and calls of its owner", 1, func(x *crossing) {
		x.r.Go("mover", func() { x.moveTo(1) })
		x.r.Go("caller", func() {
			x.ctr.Own(func(e *Engine) {
				if x.ctr.home.Load() != e || x.ctr.engine != e {
					x.r.Fail("a call runs without ownership of the connector")
				}
			})
		})
	}, 0},
}

func TestShardInterleavings(t *testing.T) { explore(t, 1, shardInterleavings) }

func TestGroupInterleavings(t *testing.T) { explore(t, 2, groupInterleavings) }

func explore(t *testing.T, engines int, all []interleaving) {
	percent := debug.SetGCPercent(1000) // every run makes engines
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			bounds := interleave.Bounds{Interruptions: s.interruptions + *exploreMore, Steps: 2000}
			began := time.Now()
			res := interleave.Explore(bounds, func(r *interleave.Run) { s.start(newCrossing(r, engines, s.results)) })
			if res.Failure != "" {
				t.Error(res.Failure)
			}
			t.Logf("%d orders, %d states, up to %d steps in a row; %v", res.Runs, res.States, res.Deepest, time.Since(began).Round(time.Millisecond))
		})
	}
}
