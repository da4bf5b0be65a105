package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
)

// The memory of one side of a session. Every area lies between guards of bytes that must never change.
const (
	guard    = 64
	inboxLen = 96 << 10 // the peer writes here, and reads it back
	bookLen  = 64 << 10 // the peer reads here; it never changes
	slotLen  = 40 << 10 // one request's local memory
	maxSend  = 36 << 10
	slots    = 24
)

// side is the application at one end of a session.
type side struct {
	s    *session
	host *Host
	peer *side
	rng  *rand.Rand
	name string

	qp   *provider.QP
	cq   *provider.CQ
	ctr  *provider.Connector
	mem  area // slots: sources and sinks
	in   area // the peer's Writes land here
	book area

	model    inboxModel // of the peer's in: what our Writes make of it
	free     []int      // slots for requests
	rfree    []int      // slots for receives: apart, so that requests which wait for receives cannot use them up
	todo     int        // requests still to post
	late     bool       // likes to post receives late
	fenced   bool       // the next request must be fenced
	deferred bool       // the last request promised that more follows
	ready    bool       // connected
	ended    bool       // results may be CANCELED from here on

	posted   []request // initiator requests without a result yet, oldest first
	receives []receive // posted receives without a result yet, oldest first
	sent     []message // our Sends that the peer has not received yet, oldest first
	context  uint64
	depth    struct{ initiator, receive int }
	done     struct{ requests, receives uint64 }
	want     [2]uint32 // read limits to ask for
}

// area is registered memory with guards.
type area struct {
	region *provider.Region
	buf    []byte
}

func (h *Host) newArea(n int, rights provider.Rights) area {
	buf := make([]byte, n+2*guard)
	scramble(buf, h.rng.Uint64())
	for i := range guard {
		buf[i], buf[len(buf)-1-i] = 0xa5, 0xa5
	}
	var r *provider.Region
	var err error
	if h.rng.IntN(2) == 0 {
		r, err = h.Memory.RegisterLink(buf, h.lend(len(buf)), rights)
	} else {
		r, err = h.Memory.Register(buf, rights)
	}
	if err != nil {
		h.net.Fail("register: %v", err)
	}
	return area{r, buf}
}

func (a area) bytes() []byte { return a.buf[guard : len(a.buf)-guard] }
func (a area) addr(off int) uint64 {
	return a.region.Base() + guard + uint64(off)
}

func (a area) guarded() bool {
	for i := range guard {
		if a.buf[i] != 0xa5 || a.buf[len(a.buf)-1-i] != 0xa5 {
			return false
		}
	}
	return true
}

// request is a posted initiator request, and what it must lead to.
type request struct {
	context uint64
	kind    provider.RequestKind
	silent  bool
	slot    int
	sges    []provider.SGE
	expect  []byte // what a Read must bring
	at      clock.Time
}

type receive struct {
	context uint64
	slot    int
	sges    []provider.SGE
	at      clock.Time
}

type message struct {
	body    []byte
	solicit bool
	writes  int // Writes posted before it: they must be in place when it arrives
}

// setUp gives the side its memory and queues.
func (a *side) setUp() {
	a.mem = a.host.newArea(slots*slotLen, provider.RightLocalWrite)
	a.in = a.host.newArea(inboxLen, provider.RightRemoteRead|provider.RightRemoteWrite)
	a.book = a.host.newArea(bookLen, provider.RightRemoteRead)
	for i, slot := range a.rng.Perm(slots) {
		if i%2 == 0 {
			a.free = append(a.free, slot)
		} else {
			a.rfree = append(a.rfree, slot)
		}
	}
	a.depth.initiator, a.depth.receive = 1+a.rng.IntN(40), 1+a.rng.IntN(12)
	a.cq = provider.NewCQ(a.depth.initiator + a.depth.receive)
	a.host.Do(func(e *provider.Engine) {
		a.qp = e.NewQP(provider.QPConfig{
			Context: uint64(len(a.name)), ReceiveCQ: a.cq, InitiatorCQ: a.cq, ReceiveDepth: a.depth.receive,
			InitiatorDepth: a.depth.initiator, MaxReceiveSGE: 4, MaxInitiatorSGE: 4, InlineSize: 300,
		})
		a.ctr = e.NewConnector()
	})
}

// size draws a length: mostly small, sometimes over several packets, and the corners more often than chance would.
func (a *side) size(limit int) int {
	switch a.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1
	case 2, 3, 4:
		return a.rng.IntN(min(limit, 200))
	case 5:
		return a.rng.IntN(min(limit, 4000))
	case 6: // rather long, to fill packets to the brim
		return limit - a.rng.IntN(limit/4)
	default:
		return a.rng.IntN(limit)
	}
}

// cut divides n bytes of a slot into one to four entries, with gaps between them. Empty entries are legal.
func (a *side) cut(slot, n int) []provider.SGE {
	base := slot*slotLen + a.rng.IntN(64)
	var sges []provider.SGE
	parts := 1 + a.rng.IntN(4)
	for i := range parts {
		take := n
		if i < parts-1 {
			take = a.rng.IntN(n + 1)
		}
		sges = append(sges, provider.SGE{Addr: a.mem.addr(base), Len: uint32(take), Token: a.mem.region.Token()})
		base += take + a.rng.IntN(16)
		n -= take
	}
	return sges
}

// gathered returns what entries name.
func (a *side) gathered(sges []provider.SGE) []byte {
	var out []byte
	for _, s := range sges {
		off := s.Addr - a.mem.region.Base()
		out = append(out, a.mem.buf[off:off+uint64(s.Len)]...)
	}
	return out
}

func (a *side) fill(slot int) {
	scramble(a.mem.bytes()[slot*slotLen:][:slotLen], a.rng.Uint64())
}

// scramble fills b, whose length is a multiple of 8, with bytes that follow from x.
func scramble(b []byte, x uint64) {
	for ; len(b) > 0; b = b[8:] {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b, x^x>>29)
	}
}

// act is one look of the application at the world: results first, then new requests, then the next look is planned.
func (a *side) act() {
	if a.s.over {
		return
	}
	a.poll()
	if a.ready && !a.ended {
		for n := a.rng.IntN(12); (n > 0 || a.deferred) && a.post(); n-- {
		}
	}
	if !a.late || a.rng.IntN(4) == 0 || !a.ready {
		for range 1 + a.rng.IntN(6) {
			if !a.postReceive() {
				break
			}
		}
	}
	pause := between(a.rng, 0, 100*time.Microsecond)
	if a.rng.IntN(30) == 0 {
		pause = between(a.rng, 0, 20*time.Millisecond)
	}
	a.s.net.After(pause, a.act)
}

// post posts one random request. It reports false when nothing can be posted now.
func (a *side) post() bool {
	if a.todo == 0 || len(a.free) == 0 || len(a.posted) >= a.depth.initiator {
		return false
	}
	slot := a.free[len(a.free)-1]
	r := provider.Request{Context: a.context}
	if a.fenced || a.rng.IntN(10) == 0 {
		r.Flags |= provider.FlagReadFence
	}
	if a.rng.IntN(4) == 0 && a.maySilence() {
		r.Flags |= provider.FlagSilentSuccess
	}
	req := request{context: a.context, slot: slot, at: a.s.net.now}
	switch k := a.rng.IntN(10); {
	case k < 4:
		a.makeWrite(&r, slot)
	case k < 7 || a.want[1] == 0 || a.peer.want[0] == 0:
		a.makeSend(&r, slot)
	default:
		a.makeRead(&r, slot, &req)
	}
	req.kind, req.silent, req.sges = r.Kind, r.Flags&provider.FlagSilentSuccess != 0, r.SGL
	a.deferred = a.rng.IntN(6) == 0 && a.todo > 1 && len(a.free) > 1 && len(a.posted)+1 < a.depth.initiator
	if a.deferred {
		r.Flags |= provider.FlagDefer
	}
	ring, o := a.qp.Post(&r)
	switch o {
	case provider.OutcomeSuccess:
	case provider.OutcomeNoMoreEntries:
		a.s.net.Fail("%s: queue full with %d of %d posted", a.name, len(a.posted), a.depth.initiator)
		return false
	default:
		a.s.net.Fail("%s: post: %v", a.name, o)
		return false
	}
	a.fenced = req.expect != nil && r.Addr >= a.peer.in.region.Base() && r.Token == a.peer.in.region.Token()
	a.commit(&r)
	a.free = a.free[:len(a.free)-1]
	a.posted = append(a.posted, req)
	a.context++
	a.todo--
	if ring {
		a.host.Poke()
	}
	return true
}

// maySilence says whether a request may succeed silently: an application that hears nothing does not know when its
// queue and its memory are free again, so some requests must speak, the last one among them.
func (a *side) maySilence() bool {
	silent := 0
	for i := range a.posted {
		if a.posted[i].silent {
			silent++
		}
	}
	return a.todo > 1 && silent+1 < a.depth.initiator && len(a.free) > 4
}

func (a *side) makeWrite(r *provider.Request, slot int) {
	a.fill(slot)
	r.Kind = provider.KindWrite
	n := a.size(slotLen - 256)
	a.local(r, slot, n)
	off := a.rng.IntN(inboxLen - n + 1)
	r.Addr, r.Token = a.peer.in.addr(off), a.peer.in.region.Token()
}

func (a *side) makeSend(r *provider.Request, slot int) {
	a.fill(slot)
	r.Kind = provider.KindSend
	if a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagSolicit
	}
	a.local(r, slot, a.size(maxSend))
}

// local sets the local memory of a request: entries, or inline bytes when they fit.
func (a *side) local(r *provider.Request, slot, n int) {
	sges := a.cut(slot, n)
	r.Length = uint32(n)
	if n <= 300 && a.rng.IntN(3) == 0 {
		r.Flags |= provider.FlagInline
		r.Inline = a.gathered(sges)
		return
	}
	r.SGL = sges
}

func (a *side) makeRead(r *provider.Request, slot int, req *request) {
	r.Kind = provider.KindRead
	n := a.size(slotLen - 256)
	r.SGL, r.Length = a.cut(slot, n), uint32(n)
	if a.rng.IntN(2) == 0 {
		off := a.rng.IntN(bookLen - n + 1)
		r.Addr, r.Token = a.peer.book.addr(off), a.peer.book.region.Token()
		req.expect = a.peer.book.bytes()[off : off+n]
		return
	}
	// What we wrote there before; the next request is fenced, so nothing later can get in between.
	off := a.rng.IntN(inboxLen - n + 1)
	r.Addr, r.Token = a.peer.in.addr(off), a.peer.in.region.Token()
	req.expect = append([]byte{}, a.model.want[off:off+n]...)
}

// commit enters a posted request into the models.
func (a *side) commit(r *provider.Request) {
	if r.Kind == provider.KindRead {
		return
	}
	body := append(a.gathered(r.SGL), r.Inline...)
	if r.Kind == provider.KindWrite {
		a.model.write(int(r.Addr-a.peer.in.addr(0)), body)
		return
	}
	a.sent = append(a.sent, message{body, r.Flags&provider.FlagSolicit != 0, len(a.model.writes)})
}

// postReceive posts one receive that takes any message.
func (a *side) postReceive() bool {
	if len(a.rfree) == 0 || len(a.receives) >= a.depth.receive || a.ended {
		return false
	}
	slot := a.rfree[len(a.rfree)-1]
	a.fill(slot)
	sges := a.cut(slot, maxSend)
	ring, o := a.qp.PostReceive(a.context, sges, maxSend)
	if o != provider.OutcomeSuccess {
		a.s.net.Fail("%s: post receive: %v", a.name, o)
		return false
	}
	a.rfree = a.rfree[:len(a.rfree)-1]
	a.receives = append(a.receives, receive{a.context, slot, sges, a.s.net.now})
	a.context++
	if ring {
		a.host.Poke()
	}
	return true
}
