package provider

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/shaker/shakertest"
	"github.com/ndxdp/ndxdp/wire"
)

// pipe is one side of a wire in memory. It keeps the order and loses nothing unless a test asks for it. It allocates only frames, each when
// it is first used, so that tests can count the allocations of the engine after a warm-up, or after allocateFrames.
type pipe struct {
	peer      *pipe
	maxPacket int
	rxSize    int    // bytes of a receive frame
	poison    []byte // overwrites the contents of a returned frame

	rxFrames [][]byte
	rxFree   []uint64
	txFrames [][]byte
	txFree   []uint64
	inbox    []RxPacket // ring
	head     int
	count    int
	stamp    clock.Time // arrival time of packets; zero for none
	paths    []tuple    // UDP endpoints
	free     []Path

	lost    int
	loseNth int // lose every n-th packet with operations; 0 for none
	carried int
	narrow  int                             // lose packets of more bytes; 0 for none
	mangle  func(p []byte) bool             // may change a packet; false loses it
	router  func(t *TxPacket) (ce, ok bool) // may mark a packet; false loses it
	wake    func()                          // called when packets arrived
	disturb func() (again bool)             // called after each delivered packet, may reorder the inbox; true delivers the packet again
	backlog []TxPacket                      // packets that wait while the device is busy
	busy    bool
	pushes  int
	noPath  bool         // no peer is reachable
	limit   int          // MTU of the route to the peer; 0 for none, negative while unknown
	noBulk  bool         // the bulk path carries no GSO batches
	land    func() *pipe // chooses the peer's queue for a packet, if the peer has several
}

const pipeFrames = 4096

var poison = bytes.Repeat([]byte{0xdb}, 3840) // the content of no real frame

// New makes an engine that is the only one of its adapter.
func New(cfg Config, link Link, mem *Memory, rng *rand.Rand) *Engine {
	return NewGroup(cfg, []Link{link}, mem, rng)[0]
}

func newPipes(maxPacket, rxSize int) (a, b *pipe) {
	a, b = newPipe(maxPacket, rxSize), newPipe(maxPacket, rxSize)
	a.peer, b.peer = b, a
	return a, b
}

func newPipe(maxPacket, rxSize int) *pipe {
	p := &pipe{maxPacket: maxPacket, rxSize: rxSize, inbox: make([]RxPacket, 1024), paths: make([]tuple, 1)}
	p.rxFrames, p.txFrames = make([][]byte, pipeFrames), make([][]byte, pipeFrames)
	for i := range uint64(pipeFrames) {
		p.rxFree = append(p.rxFree, i)
		p.txFree = append(p.txFree, i)
	}
	return p
}

func (p *pipe) Receive(pkts []RxPacket) int {
	n := min(len(pkts), p.count)
	for i := range n {
		pkts[i] = p.inbox[(p.head+i)%len(p.inbox)]
	}
	p.head = (p.head + n) % len(p.inbox)
	p.count -= n
	return n
}

func (p *pipe) Ready() bool { return p.count > 0 }

func (p *pipe) Recycle(ids []uint64) {
	for _, id := range ids {
		copy(p.rxFrames[id], p.poison)
	}
	p.rxFree = append(p.rxFree, ids...)
}

func (p *pipe) Frames(dst []Frag) int {
	n := min(len(dst), len(p.txFree))
	for i := range n {
		id := p.txFree[len(p.txFree)-1]
		p.txFree = p.txFree[:len(p.txFree)-1]
		dst[i] = Frag{Data: frame(p.txFrames, id, FrameSize), ID: id}
	}
	return n
}

func (p *pipe) Transmit(pkts []TxPacket) {
	if p.busy {
		p.backlog = append(p.backlog, pkts...)
		return
	}
	p.Push()
	p.carry(pkts)
}

// Backlog implements Backlogged.
func (p *pipe) Backlog() int { return len(p.backlog) }

// Push implements Backlogged.
func (p *pipe) Push() {
	p.pushes++
	if !p.busy && len(p.backlog) > 0 {
		backlog := p.backlog
		p.backlog = nil
		p.carry(backlog)
	}
}

func (p *pipe) carry(pkts []TxPacket) {
	for i := range pkts {
		t := &pkts[i]
		peer := p.peer
		if p.land != nil {
			peer = p.land()
		}
		path := &p.paths[t.Path]
		if path.remote.Port == 0 {
			panic("a packet to a path that was forgotten")
		}
		peer.deliver(t, path.local, path.remote)
		for j := range t.N {
			if t.Frags[j].ID < pipeFrames { // otherwise memory of the link, sent without a copy
				p.txFree = append(p.txFree, t.Frags[j].ID)
			}
		}
	}
	if p.peer.wake != nil {
		p.peer.wake()
	}
}

func (p *pipe) deliver(t *TxPacket, from, to wire.Endpoint) {
	if sequenced(t.Frags[0].Data) {
		p.carried++
		if p.loseNth > 0 && p.carried%p.loseNth == 0 {
			p.lost++
			return
		}
	}
	if p.narrow > 0 && t.Len > p.narrow {
		p.lost++
		return
	}
	if p.mangle != nil && !p.mangle(t.Frags[0].Data) {
		p.lost++
		return
	}
	ce, ok := false, true
	if p.router != nil {
		ce, ok = p.router(t)
	}
	if !ok {
		p.lost++
		return
	}
	if p.count == len(p.inbox) || len(p.rxFree) < t.Len/p.rxSize+1 {
		p.lost++
		return
	}
	r := &p.inbox[(p.head+p.count)%len(p.inbox)]
	r.From, r.To, r.CE, r.N, r.Len, r.Bulk, r.Arrived = from, to, ce, 0, t.Len, t.Bulk, p.stamp
	used := p.rxSize
	for i := range t.N {
		for src := t.Frags[i].Data; len(src) > 0; {
			if used == p.rxSize {
				id := p.rxFree[len(p.rxFree)-1]
				p.rxFree = p.rxFree[:len(p.rxFree)-1]
				r.Frags[r.N] = Frag{Data: frame(p.rxFrames, id, p.rxSize)[:0], ID: id}
				r.N++
				used = 0
			}
			f := &r.Frags[r.N-1]
			n := copy(p.rxFrames[f.ID][used:], src)
			src = src[n:]
			used += n
			f.Data = p.rxFrames[f.ID][:used]
		}
	}
	p.count++
	if p.disturb != nil && p.disturb() {
		p.deliver(t, from, to)
	}
}

func (p *pipe) Connect(local, remote wire.Endpoint) (Path, error) {
	if p.noPath {
		return 0, errNoPath
	}
	if len(p.free) == 0 {
		p.free = append(p.free, Path(len(p.paths)))
		p.paths = append(p.paths, tuple{})
	}
	path := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.paths[path] = tuple{local, remote}
	return path, nil
}

// errNoPath is the error of a pipe without paths.
var errNoPath = errors.New("no path")

func (p *pipe) Reply(r *RxPacket, from, to uint16) (Path, bool) {
	path, err := p.Connect(wire.Endpoint{IP: r.To.IP, Port: from}, wire.Endpoint{IP: r.From.IP, Port: to})
	return path, err == nil
}

func (p *pipe) Hop(Path) (mac [6]byte) { return mac }
func (p *pipe) MaxPacket() int         { return p.maxPacket }

// Limit implements Limited.
func (p *pipe) Limit(Path) (size int, known bool) { return max(p.limit, 0), p.limit >= 0 }

func (p *pipe) Forget(path Path) {
	p.paths[path] = tuple{}
	p.free = append(p.free, path)
}

// pair is two engines on a pipe, on virtual time.
type pair struct {
	tb   testing.TB
	now  clock.Time
	link [2]*pipe
	mem  [2]*Memory
	eng  [2]*Engine
	more [2][]*Engine // further engines of the same adapter, if it has several queues
	qp   [2]*QP
	cq   [2]*CQ
	ctr  [2]*Connector
	reg  [2]*Region

	tls         [2]*shakertest.Side // of connections that are encrypted; nil for none
	broken      int                 // engines that panicked in their shards
	connected   uint16              // connections made, each to a port of its own
	limits      [2]ConnectParams
	afterAccept func()
}

var pairIP = [2][16]byte{
	{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1},
	{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 2},
}

const pairPort = 9000

func newPair(tb testing.TB, maxPacket int) *pair { return newQueuesPair(tb, maxPacket, 1) }

// newQueuesPair is a pair whose sides have several queues. Packets of queue i arrive on queue i unless a test changes that.
func newQueuesPair(tb testing.TB, maxPacket, queues int) *pair {
	return newTunedPair(tb, maxPacket, queues, Config{})
}

func newTunedPair(tb testing.TB, maxPacket, queues int, cfg Config) *pair {
	return newSeededPair(tb, 1, maxPacket, queues, cfg)
}

// newSeededPair is newTunedPair with another random seed.
func newSeededPair(tb testing.TB, seed uint64, maxPacket, queues int, cfg Config) *pair {
	p := &pair{tb: tb, now: clock.Time(time.Second), afterAccept: func() {}}
	p.limits[0] = ConnectParams{Inbound: 16, Outbound: 16, Private: []byte("hello")}
	p.limits[1] = p.limits[0]
	var links [2][]Link
	for range queues {
		a, b := newPipes(maxPacket, 3840)
		if _, bench := tb.(*testing.B); !bench {
			a.poison, b.poison = poison, poison
		}
		links[0], links[1] = append(links[0], a), append(links[1], b)
	}
	p.link[0], p.link[1] = links[0][0].(*pipe), links[1][0].(*pipe)
	for i := range 2 {
		rng := rand.New(rand.NewPCG(uint64(i), seed))
		p.mem[i] = NewMemory(rng)
		group := NewGroup(cfg, links[i], p.mem[i], rng)
		p.eng[i], p.more[i] = group[0], group[1:]
		p.cq[i] = NewCQ(1024)
		p.qp[i] = p.eng[i].NewQP(QPConfig{
			ReceiveCQ: p.cq[i], InitiatorCQ: p.cq[i], ReceiveDepth: 256, InitiatorDepth: 256,
			MaxReceiveSGE: 4, MaxInitiatorSGE: 4, InlineSize: 256,
		})
		var err error
		p.reg[i], err = p.mem[i].Register(make([]byte, 4<<20), RightRemoteRead|RightRemoteWrite)
		if err != nil {
			tb.Fatal(err)
		}
	}
	p.runUntilIdle() // the engines learn the time
	return p
}

// turn polls both engines once, a microsecond apart.
func (p *pair) turn() (busy bool) {
	p.now += 1000
	for side, e := range p.eng {
		busy = e.Run(p.now) || busy
		for _, e := range p.more[side] {
			busy = e.Run(p.now) || busy
		}
	}
	for side, e := range p.eng {
		busy = busy || e.link.Ready() || e.inbox.waiting.Load()
		for _, e := range p.more[side] {
			busy = busy || e.link.Ready() || e.inbox.waiting.Load()
		}
	}
	return busy
}

// nextDeadline returns the earliest time at which an engine has to run.
func (p *pair) nextDeadline() clock.Time {
	at := clock.Never
	for side, e := range p.eng {
		at = min(at, e.NextDeadline())
		for _, e := range p.more[side] {
			at = min(at, e.NextDeadline())
		}
	}
	return at
}

// runUntilIdle polls the engines until neither has work.
func (p *pair) runUntilIdle() {
	for range 100000 {
		if !p.turn() {
			return
		}
	}
	p.tb.Fatal("the engines never become idle")
}

// pass advances the time by d.
func (p *pair) pass(d time.Duration) {
	end := p.now.Add(d)
	for {
		p.runUntilIdle()
		next := p.nextDeadline()
		if next > end {
			break
		}
		p.now = max(p.now, next)
	}
	p.now = max(p.now, end)
	p.runUntilIdle()
}

// connect establishes the connection between the two queue pairs.
func (p *pair) connect() *pair {
	p.tb.Helper()
	l := p.eng[1].NewListener()
	at, o := l.Bind(wire.Endpoint{IP: pairIP[1], Port: pairPort + p.connected})
	p.must(o)
	p.ctr[0], p.ctr[1] = p.eng[0].NewConnector(), p.eng[1].NewConnector()
	p.useTLS(l)
	p.must(l.Listen(1))
	p.connected++
	var got, connected, accepted, completed promise
	p.must(l.GetRequest(p.ctr[1], got.finish))
	p.must(p.ctr[0].connect(p.qp[0], wire.Endpoint{IP: pairIP[0]}, at, p.limits[0], connected.finish))
	p.runUntilIdle()
	got.must(p.tb, OutcomeSuccess)
	p.must(p.ctr[1].Accept(p.qp[1], p.limits[1], accepted.finish))
	p.runUntilIdle()
	p.afterAccept()
	connected.must(p.tb, OutcomeSuccess)
	p.must(p.ctr[0].CompleteConnect(completed.finish))
	p.runUntilIdle()
	completed.must(p.tb, OutcomeSuccess)
	accepted.must(p.tb, OutcomeSuccess)
	return p
}

// warmedUp prepares a connection whose time-outs are computed from measured round trips.
func (p *pair) warmedUp() *pair {
	for side := range p.eng {
		p.conn(side).rtt.Settle()
	}
	return p
}

func (p *pair) must(o Outcome) {
	p.tb.Helper()
	if o != OutcomeSuccess {
		p.tb.Fatalf("outcome %v", o)
	}
}

func (p *pair) post(side int, r *listed) {
	p.tb.Helper()
	if _, o := r.post(p.qp[side]); o != OutcomeSuccess {
		p.tb.Fatalf("post: %v", o)
	}
}

// result polls exactly one result.
func (p *pair) result(side int) Result {
	p.tb.Helper()
	var rs [2]Result
	if n := p.cq[side].Fetch(rs[:]); n != 1 {
		p.tb.Fatalf("%d results instead of 1: %+v", n, rs[:n])
	}
	return rs[0]
}

// results polls all results.
func (p *pair) results(side int) []Result {
	rs := make([]Result, 1024)
	return rs[:p.cq[side].Fetch(rs)]
}

// outcomes polls all results. The results must have these outcomes, in this order.
func (p *pair) outcomes(side int, want ...Outcome) []Result {
	p.tb.Helper()
	rs := p.results(side)
	if !slices.EqualFunc(rs, want, func(r Result, o Outcome) bool { return r.Outcome == o }) {
		p.tb.Fatalf("side %d: results %+v, want outcomes %v", side, rs, want)
	}
	return rs
}

// write makes a Write from side's region to the same offset of the peer's region.
func (p *pair) write(side int, off, n uint32) *listed {
	return &listed{SGL: p.sge(side, off, n), Request: Request{Kind: KindWrite, Length: n, Addr: p.reg[1-side].Base() + uint64(off), Token: p.reg[1-side].Token()}}
}

// read makes a Read by side 0 of the peer's region into the same offset of its own region.
func (p *pair) read(off, n uint32) *listed {
	r := p.write(0, off, n)
	r.Kind = KindRead
	return r
}

// send makes a Send of the first n bytes of side's region.
func (p *pair) send(side int, n uint32) *listed {
	return &listed{SGL: p.sge(side, 0, n), Request: Request{Kind: KindSend, Length: n}}
}

func (p *pair) receive(side int, off, n uint32) {
	p.tb.Helper()
	_, o := p.qp[side].PostReceive(0, p.sge(side, off, n), n)
	p.must(o)
}

// fill writes a recognizable pattern into side's memory.
func (p *pair) fill(side int, off, n uint32, v byte) {
	for i := range p.reg[side].Bytes()[off:][:n] {
		p.reg[side].Bytes()[off:][i] = v
	}
}

func (p *pair) all(side int, off, n uint32, v byte) bool {
	for _, b := range p.reg[side].Bytes()[off:][:n] {
		if b != v {
			return false
		}
	}
	return true
}

// conn returns side's connection.
func (p *pair) conn(side int) *conn { return p.qp[side].conn }

// loseFirst makes the link to side lose the first n packets whose first operation or control message is op.
func (p *pair) loseFirst(side, n int, op wire.Opcode) {
	p.link[side].mangle = func(b []byte) bool {
		if opcode(b) == op && n > 0 {
			n--
			return false
		}
		return true
	}
}

// sge names n bytes at off of side's region.
func (p *pair) sge(side int, off, n uint32) []SGE {
	return []SGE{{Addr: p.reg[side].Base() + uint64(off), Len: n, Token: p.reg[side].Token()}}
}
