package sim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider"
)

// guard is how many bytes in front of and behind every area must never change.
const guard = 64

// noise is where all bytes come from: memory is filled with a piece of it and compared with that piece later, so that a
// byte that was written and should not have been is found wherever it is. It is never written to.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	for x, i := uint64(1), 0; i < len(b); i += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b[i:], x^x>>29)
	}
	return b
}()

// shape is how much memory a side has: most sessions are small, so that many fit into a second.
type shape struct {
	slots, slotLen int // requests' local memory: a slot each
	inbox, book    int // where the peer writes, and reads it back; where it reads, which never changes
	most           int // bytes of the longest message
}

func drawShape(rng *rand.Rand, small bool) shape {
	slotLen := []int{2 << 10, 2 << 10, 8 << 10, 40 << 10}[rng.IntN(4)]
	if small {
		slotLen = 2 << 10
	}
	return shape{slots: 8 + 2*rng.IntN(9), slotLen: slotLen, inbox: 2 * slotLen, book: slotLen, most: slotLen - 256}
}

// area is registered memory between guards, which are not registered.
type area struct {
	region *provider.Region
	buf    []byte
	from   int    // the place in noise it was filled from
	gone   bool   // it is not registered any more
	sealed []byte // what it held when its grant ended; nil while it is granted
}

func (h *Host) newArea(n int, rights provider.Rights) area {
	buf := make([]byte, n+2*guard)
	a := area{buf: buf, from: h.rng.IntN(len(noise) - len(buf))}
	copy(buf, noise[a.from:])
	var err error
	if h.rng.IntN(2) == 0 {
		a.region, err = h.Memory.RegisterLink(a.bytes(), h.nameMemory(n), rights)
	} else {
		a.region, err = h.Memory.Register(a.bytes(), rights)
	}
	if err != nil {
		h.net.Fail("register: %v", err)
	}
	return a
}

func (a area) bytes() []byte        { return a.buf[guard : len(a.buf)-guard] }
func (a area) addr(off int) uint64  { return a.region.Base() + uint64(off) }
func (a area) offset(at uint64) int { return int(at - a.region.Base()) }

// guarded reports whether nothing was written in front of the area or behind it.
func (a area) guarded() bool {
	end := len(a.buf) - guard
	return bytes.Equal(a.buf[:guard], noise[a.from:][:guard]) && bytes.Equal(a.buf[end:], noise[a.from+end:][:guard])
}

// untouched reports whether nothing in it was written.
func (a area) untouched() bool { return bytes.Equal(a.buf, noise[a.from:][:len(a.buf)]) }

// store is local memory for requests, in slots of equal size.
type store struct {
	rng     *rand.Rand
	mem     area
	slotLen int
	slots   []slot
}

// slot is a piece of local memory for one request.
type slot struct {
	off, from int // the first byte, and the place in noise it was filled from
}

func (h *Host) newStore(rng *rand.Rand, slots, slotLen int) store {
	return store{rng: rng, mem: h.newArea(slots*slotLen, provider.RightLocalWrite), slotLen: slotLen, slots: make([]slot, slots)}
}

// fill gives slot number i new contents.
func (m *store) fill(i int) {
	s := &m.slots[i]
	s.off, s.from = i*m.slotLen, m.rng.IntN(len(noise)-m.slotLen)
	copy(m.mem.bytes()[s.off:][:m.slotLen], noise[s.from:])
}

// cut divides n bytes of a slot into one to four entries, with gaps between them. Empty entries are legal.
func (m *store) cut(slot, n int) []provider.SGE {
	base := slot*m.slotLen + m.rng.IntN(64)
	var sges []provider.SGE
	parts := 1 + m.rng.IntN(4)
	for i := range parts {
		take := n
		if i < parts-1 {
			take = m.rng.IntN(n + 1)
		}
		sges = append(sges, provider.SGE{Addr: m.mem.addr(base), Len: uint32(take), Token: m.mem.region.Token()})
		base += take + m.rng.IntN(16)
		n -= take
	}
	return sges
}

// intact reports whether nothing was written into a slot but the first n bytes that entries name; with n of none, nothing at all.
// Entries lie in order.
func (m *store) intact(i int, sges []provider.SGE, n int) bool {
	s := m.slots[i]
	memory, want := m.mem.bytes()[s.off:][:m.slotLen], noise[s.from:][:m.slotLen]
	at := 0
	for _, e := range sges {
		take := min(n, int(e.Len))
		if take == 0 {
			continue
		}
		off := m.mem.offset(e.Addr) - s.off
		if !bytes.Equal(memory[at:off], want[at:off]) {
			return false
		}
		at = off + take
		n -= take
	}
	return bytes.Equal(memory[at:], want[at:])
}

// gathered returns what entries name.
func (m *store) gathered(sges []provider.SGE) []byte {
	total := 0
	for _, e := range sges {
		total += int(e.Len)
	}
	out := make([]byte, 0, total)
	for _, e := range sges {
		out = append(out, m.mem.bytes()[m.mem.offset(e.Addr):][:e.Len]...)
	}
	return out
}

// holds reports whether the bytes that entries name begin with body.
func (m *store) holds(sges []provider.SGE, body []byte) bool {
	for _, e := range sges {
		take := min(len(body), int(e.Len))
		if !bytes.Equal(m.mem.bytes()[m.mem.offset(e.Addr):][:take], body[:take]) {
			return false
		}
		body = body[take:]
	}
	return len(body) == 0
}

// inboxModel is what the peer's memory must look like when all our Writes are there, and which Write each byte is from.
type inboxModel struct {
	want   []byte
	stamp  []uint32 // index+1 of the newest Write that covers the byte
	writes []span
}

type span struct{ off, n int }

func newInboxModel(initial []byte) inboxModel {
	return inboxModel{want: append([]byte(nil), initial...), stamp: make([]uint32, len(initial))}
}

func (m *inboxModel) write(off int, body []byte) {
	m.writes = append(m.writes, span{off, len(body)})
	copy(m.want[off:], body)
	stamp := uint32(len(m.writes))
	for i := range m.stamp[off:][:len(body)] {
		m.stamp[off+i] = stamp
	}
}

// inPlace reports whether the last Writes among the first n are in memory, where no later one covers them.
func (m *inboxModel) inPlace(memory []byte, n int) bool {
	for w := max(0, n-4); w < n; w++ {
		s := m.writes[w]
		stamps, got, want := m.stamp[s.off:][:s.n], memory[s.off:][:s.n], m.want[s.off:][:s.n]
		for i, stamp := range stamps {
			if stamp == uint32(w+1) && got[i] != want[i] {
				return false
			}
		}
	}
	return true
}

// confined reports whether nothing was written where none of our Writes went.
func (m *inboxModel) confined(memory []byte) bool {
	for i, stamp := range m.stamp {
		if stamp == 0 && memory[i] != m.want[i] {
			return false
		}
	}
	return true
}
