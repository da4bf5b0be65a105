package provider

import (
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/provider/internal/guard"
	"github.com/ndxdp/ndxdp/wire"
)

// flight is a packet between two engines.
type flight struct {
	to       int // side
	from, at wire.Endpoint
	data     []byte
}

// lane is a link that passes its packets to a function. It is small, because tests make thousands of engines one after another.
type lane struct {
	side     int
	carry    func(flight)
	inbox    []RxPacket
	out      map[uint64]bool // receive frames that the engine owns
	next     uint64
	tx       [16][]byte
	txFree   []uint64
	ends     []tuple // by path
	free     []Path
	open     int
	finished string // the engine's violation of the link's contract
}

func newLane(side int) *lane {
	l := &lane{side: side}
	for i := range l.tx {
		l.tx[i] = make([]byte, FrameSize)
	}
	l.reset(nil)
	return l
}

func (l *lane) reset(carry func(flight)) {
	*l = lane{side: l.side, tx: l.tx, carry: carry, out: map[uint64]bool{}, txFree: l.txFree[:0], ends: make([]tuple, 1, 8)}
	for i := range l.tx {
		l.txFree = append(l.txFree, uint64(i))
	}
}

// arrive puts a packet into the inbox, in one frame.
func (l *lane) arrive(f flight) {
	l.next++
	l.out[l.next] = true
	r := RxPacket{From: f.from, To: f.at, N: 1, Len: len(f.data)}
	r.Frags[0] = Frag{Data: append([]byte(nil), f.data...), ID: l.next}
	l.inbox = append(l.inbox, r)
}

func (l *lane) Receive(pkts []RxPacket) int {
	n := copy(pkts, l.inbox)
	l.inbox = l.inbox[:copy(l.inbox, l.inbox[n:])]
	return n
}

func (l *lane) Ready() bool { return len(l.inbox) > 0 }

func (l *lane) Recycle(ids []uint64) {
	for _, id := range ids {
		if !l.out[id] {
			l.finished = "a frame was recycled twice"
		}
		delete(l.out, id)
	}
}

func (l *lane) Frames(dst []Frag) int {
	n := min(len(dst), len(l.txFree))
	for i := range n {
		id := l.txFree[len(l.txFree)-1]
		l.txFree = l.txFree[:len(l.txFree)-1]
		dst[i] = Frag{Data: l.tx[id], ID: id}
	}
	return n
}

func (l *lane) Transmit(pkts []TxPacket) {
	for i := range pkts {
		t := &pkts[i]
		if l.ends[t.Path] == (tuple{}) {
			l.finished = "a packet was sent to a path that was forgotten"
		}
		f := flight{to: 1 - l.side, from: l.ends[t.Path].local, at: l.ends[t.Path].remote}
		for j := range t.N {
			f.data = append(f.data, t.Frags[j].Data...)
			l.txFree = append(l.txFree, t.Frags[j].ID)
		}
		l.carry(f)
	}
}

func (l *lane) Connect(local, remote wire.Endpoint) (Path, error) {
	l.open++
	if n := len(l.free); n > 0 {
		p := l.free[n-1]
		l.free = l.free[:n-1]
		l.ends[p] = tuple{local, remote}
		return p, nil
	}
	l.ends = append(l.ends, tuple{local, remote})
	return Path(len(l.ends) - 1), nil
}

func (l *lane) Reply(p *RxPacket, from, to uint16) (Path, bool) {
	path, err := l.Connect(wire.Endpoint{IP: p.To.IP, Port: from}, wire.Endpoint{IP: p.From.IP, Port: to})
	return path, err == nil
}

func (l *lane) Hop(Path) (mac [6]byte) { return mac }

func (l *lane) Forget(p Path) {
	l.open--
	l.ends[p] = tuple{}
	l.free = append(l.free, p)
}

func (l *lane) MaxPacket() int { return 1408 }

// world is two engines with links between them, on virtual time.
type world struct {
	now  clock.Time
	lane [2]*lane
	eng  [2]*Engine
	mem  [2]*Memory
	cq   [2]*CQ
	qp   [2]*QP
	ctr  [2]*Connector
	l    *Listener
	tls  *shakertest.Side // of connectors of fromPort; nil for none
	air  []flight
	room int                 // the maximum of packets in flight; further packets are lost
	sent func(f flight) bool // called for every packet; false loses the packet
}

var worldMem = [2]*Memory{
	NewMemory(rand.New(rand.NewPCG(1, 2))), NewMemory(rand.New(rand.NewPCG(3, 4))),
}

// newWorld makes a world in which side 1 listens. It may reuse links and memory tables.
func newWorld(lanes [2]*lane, room int, cfg Config) *world {
	w := &world{now: clock.Time(time.Second), room: room, mem: worldMem, lane: lanes, sent: func(flight) bool { return true }}
	for i := range 2 {
		w.lane[i].reset(func(f flight) {
			if w.sent(f) && len(w.air) < w.room {
				w.air = append(w.air, f)
			}
		})
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		w.eng[i] = New(cfg, w.lane[i], w.mem[i], rng)
		w.cq[i] = NewCQ(32)
		w.qp[i] = w.eng[i].NewQP(QPConfig{
			ReceiveCQ: w.cq[i], InitiatorCQ: w.cq[i], ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
		})
		w.ctr[i] = w.eng[i].NewConnector()
		w.eng[i].Run(w.now)
	}
	w.l = w.eng[1].NewListener()
	_, o := w.l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort})
	if o != OutcomeSuccess || w.l.Listen(4) != OutcomeSuccess {
		panic("the listener does not listen")
	}
	return w
}

// listen raises the backlog to the maximum.
func (w *world) listen() { w.l.backlog = guard.MaxBacklog }

// connect connects two queue pairs with new connectors, and reports whether it succeeded.
func (w *world) connect(qp [2]*QP) (ctr [2]*Connector, ok bool) {
	var got, connected, accepted, completed promise
	ctr = [2]*Connector{w.eng[0].NewConnector(), w.eng[1].NewConnector()}
	at := wire.Endpoint{IP: pairIP[1], Port: pairPort}
	params := ConnectParams{Inbound: 4, Outbound: 4}
	if w.l.GetRequest(ctr[1], got.finish) != OutcomeSuccess ||
		ctr[0].connect(qp[0], wire.Endpoint{IP: pairIP[0]}, at, params, connected.finish) != OutcomeSuccess {
		return ctr, false
	}
	w.pass(100*time.Millisecond, func() {})
	if ctr[1].Accept(qp[1], params, accepted.finish) != OutcomeSuccess {
		return ctr, false
	}
	w.pass(100*time.Millisecond, func() {})
	if ctr[0].CompleteConnect(completed.finish) != OutcomeSuccess {
		return ctr, false
	}
	w.pass(100*time.Millisecond, func() {})
	return ctr, got.outcome+connected.outcome+accepted.outcome+completed.outcome == 0 && accepted.times+completed.times == 2
}

// turn advances the time by a microsecond and polls both engines.
func (w *world) turn() {
	w.now += 1000
	for i := range 2 {
		for n := 0; w.eng[i].Run(w.now); n++ {
			w.now += 1000
			if n > 10000 {
				panic("an engine never becomes idle")
			}
		}
	}
}

// deliver delivers packet i.
func (w *world) deliver(i int) {
	f := w.air[i]
	w.air = append(w.air[:i:i], w.air[i+1:]...)
	w.lane[f.to].arrive(f)
	w.turn()
}

// next returns the earliest deadline.
func (w *world) next() clock.Time { return min(w.eng[0].NextDeadline(), w.eng[1].NextDeadline()) }

// pass delivers all packets in order and advances the time by d. After each step it calls act.
func (w *world) pass(d time.Duration, act func()) {
	end := w.now.Add(d)
	for n := 0; ; n++ {
		if n > 100000 {
			panic("the engines never become idle")
		}
		w.turn()
		act()
		w.turn()
		if len(w.air) > 0 {
			w.deliver(0)
			continue
		}
		next := w.next()
		if next > end {
			break
		}
		w.now = max(w.now, next)
	}
	w.now = max(w.now, end)
}

// left describes what an engine still holds after everything has ended. It returns an empty string if nothing is left.
func (w *world) left() string {
	for i := range 2 {
		e := w.eng[i]
		switch l := w.lane[i]; {
		case l.finished != "":
			return l.finished
		case e.Leftover() != "":
			return e.Leftover()
		case len(l.out) != 0:
			return "a receive frame is missing"
		case len(l.txFree)+e.FramesHeld() != len(l.tx):
			return "a transmit frame is missing"
		case l.open != 0:
			return "a path is left"
		}
	}
	return ""
}
