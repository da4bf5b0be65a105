package provider

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

// TestResentByCause provokes each cause of a retransmission alone. The retransmission must be counted under its cause and nowhere
// else. The peer's acknowledgements reveal unnecessary retransmissions.
func TestResentByCause(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(p *pair)
		want Stats
	}{
		"a hole": {func(p *pair) {
			n := 0
			p.link[1].mangle = func(b []byte) bool {
				if sequenced(b) {
					n++
				}
				return n != 5 || !sequenced(b)
			}
			p.post(0, p.write(0, 0, 20*1344))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentLost: 1}},
		"the last packet": {func(p *pair) {
			p.loseFirst(1, 1, wire.OpWrite)
			p.post(0, p.write(0, 0, 64))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentProbe: 1}},
		"the last packet and its probe": {func(p *pair) {
			p.loseFirst(1, 2, wire.OpWrite)
			p.post(0, p.write(0, 0, 64))
			p.pass(20 * time.Millisecond)
		}, Stats{Retransmits: 2, ResentProbe: 1, ResentTimeout: 1}},
		"an acknowledgement": {func(p *pair) {
			p.loseFirst(0, 1, blocksAlone)
			p.post(0, p.write(0, 0, 64))
			p.pass(10 * time.Millisecond)
		}, Stats{Retransmits: 1, ResentProbe: 1, Duplicates: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 1408).connect().warmedUp()
			for range 4 { // round trips for the estimate
				p.post(0, p.write(0, 0, 64))
				p.runUntilIdle()
			}
			p.results(0)
			test.do(p)
			for _, r := range p.results(0) {
				if r.Outcome != OutcomeSuccess {
					t.Fatalf("%+v", r)
				}
			}
			wantResent(t, p, test.want)
		})
	}
	t.Run("no receive", func(t *testing.T) {
		p := newCommons(t, 1, 16)
		p.say(0, 1, 100)
		p.runUntilIdle()
		p.offer(1)
		p.pass(10 * time.Millisecond)
		p.heard(1)
		wantResent(t, p.pair, Stats{Retransmits: 1, ResentReceive: 1})
	})
}

// wantResent compares the retransmission counters of side 0.
func wantResent(t *testing.T, p *pair, want Stats) {
	t.Helper()
	s := p.eng[0].Stats()
	got := Stats{
		Retransmits: s.Retransmits, ResentLost: s.ResentLost, ResentProbe: s.ResentProbe, ResentTimeout: s.ResentTimeout,
		ResentReceive: s.ResentReceive, Duplicates: s.Duplicates,
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// byPlace records the contents that packets of one direction had for every byte and message.
type byPlace struct {
	t      *testing.T
	next   [wire.NumSpaces]uint32 // the number of a message in flight
	bytes  [wire.NumSpaces]map[space.Place]byte
	first  [wire.NumSpaces]map[uint32]wire.Op
	ends   [wire.NumSpaces]map[uint32]uint32 // length of a message, from the packet with its last byte
	again  int                               // bytes that were retransmitted
	pieces map[[2]space.Place]bool           // the boundaries of segments
}

func newByPlace(t *testing.T) *byPlace {
	w := &byPlace{t: t, pieces: map[[2]space.Place]bool{}}
	for sp := range w.bytes {
		w.bytes[sp], w.first[sp], w.ends[sp] = map[space.Place]byte{}, map[uint32]wire.Op{}, map[uint32]uint32{}
	}
	return w
}

// packet checks a packet: its contents must equal those of all earlier packets with the same bytes.
func (w *byPlace) packet(b []byte) {
	h := wire.BaseHeader(b)
	if h.Control() {
		return
	}
	at, d := wire.ContentOffset(b)
	if d != wire.DropNone {
		w.t.Errorf("%v", d)
		return
	}
	sp, rest := h.Space(), b[at:]
	w.next[sp] = wire.ExpandMessage(h.Message(), w.next[sp])
	place := space.At(w.next[sp], h.Offset())
	for used := 0; used < len(rest); {
		op := wire.Op{Opcode: wire.OpMore, Length: uint16(len(rest))}
		if h.Flags()&wire.FlagEnd != 0 {
			op.Flags = wire.OpLast
		}
		if !h.Piece() {
			used += -used & (wire.OpAlign - 1)
			n, d := wire.ParseOp(rest[used:], sp, &op)
			if d != wire.DropNone {
				w.t.Errorf("%v", d)
				return
			}
			used += n
		}
		w.operation(sp, place, &op, rest[used:][:op.Length])
		used += int(op.Length)
		place = place.After(uint32(op.Length), op.Flags&wire.OpLast != 0)
	}
}

// operation checks an operation and its payload.
func (w *byPlace) operation(sp wire.Space, place space.Place, op *wire.Op, payload []byte) {
	if op.Opcode != wire.OpMore {
		said := *op
		said.Length, said.Flags = 0, op.Flags&^wire.OpLast
		if old, ok := w.first[sp][place.Message()]; ok && old != said {
			w.t.Errorf("message %d was %+v and is %+v", place.Message(), old, said)
		}
		w.first[sp][place.Message()] = said
	}
	for i, b := range payload {
		p := place + space.Place(i)
		if old, ok := w.bytes[sp][p]; ok {
			w.again++
			if old != b {
				w.t.Errorf("byte %x was %d and is %d", p, old, b)
				return
			}
		}
		w.bytes[sp][p] = b
	}
	if end := place.Offset() + uint32(op.Length); op.Flags&wire.OpLast != 0 {
		if old, ok := w.ends[sp][place.Message()]; ok && old != end {
			w.t.Errorf("message %d had %d bytes and has %d", place.Message(), old, end)
		}
		w.ends[sp][place.Message()] = end
	}
	w.pieces[[2]space.Place{place, place + space.Place(op.Length)}] = true
}

// A retransmission has the same bytes at the same offset of the same message, under a new packet number (I7).
func TestBytesSentAgainAreTheSame(t *testing.T) {
	p := newPair(t, 1408).connect()
	w := newByPlace(t)
	carried, last := 0, -1
	p.link[1].mangle = func(b []byte) bool {
		h := wire.BaseHeader(b)
		if number := int(h.Number()); number <= last {
			t.Errorf("packet number %d after %d", number, last)
		} else {
			last = number
		}
		w.packet(b)
		if sequenced(b) {
			carried++
		}
		return !sequenced(b) || carried%7 != 3
	}
	for i := range uint32(100) {
		for j := range uint32(3000) {
			p.reg[0].Bytes()[i*3000+j] = byte(i*j*j>>4 + j)
		}
		p.receive(1, 1<<20, 2000)
		p.post(0, p.write(0, i*3000, 3000))
		p.post(0, &listed{SGL: p.sge(0, i*3000, 2000), Request: Request{Kind: KindSend, Length: 2000}})
		p.pass(time.Millisecond)
	}
	p.pass(time.Second)
	if w.again == 0 || len(w.ends[0]) != 200 {
		t.Errorf("%d bytes of %d messages were retransmitted", w.again, len(w.ends[0]))
	}
}
