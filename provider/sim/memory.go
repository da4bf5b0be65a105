package sim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/ndxdp/ndxdp/provider"
)

// guard is the number of bytes in front of and behind each area that must not change.
const guard = 64

// noise is the source of all bytes. Memory is filled from it and later compared with it, so that any wrong write is detected. It is
// never written to.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	for x, i := uint64(1), 0; i < len(b); i += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b[i:], x^x>>29)
	}
	return b
}()

// shape is how much memory a side has. Most sessions are small, so that many run per second.
type shape struct {
	slots, slotLen int // local memory of requests, one slot each
	inbox, book    int // memory that the peer writes and reads back; memory that the peer reads, which never changes
	most           int // length of the longest message
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
	from   int    // offset in noise that it was filled from
	gone   bool   // not registered any more
	sealed []byte // contents when its grant ended; nil while it is granted
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

// guarded reports whether the guards are unchanged.
func (a area) guarded() bool {
	end := len(a.buf) - guard
	return bytes.Equal(a.buf[:guard], noise[a.from:][:guard]) && bytes.Equal(a.buf[end:], noise[a.from+end:][:guard])
}

// untouched reports whether the area is unchanged.
func (a area) untouched() bool { return bytes.Equal(a.buf, noise[a.from:][:len(a.buf)]) }

// store is local memory for requests, in slots of equal size.
type store struct {
	rng     *rand.Rand
	mem     area
	slotLen int
	slots   []slot
}

// slot is the local memory of one request.
type slot struct {
	off, from int // the first byte, and the offset in noise that it was filled from
}

func (h *Host) newStore(rng *rand.Rand, slots, slotLen int) store {
	return store{rng: rng, mem: h.newArea(slots*slotLen, provider.RightLocalWrite), slotLen: slotLen, slots: make([]slot, slots)}
}

// fill fills slot i with new contents.
func (m *store) fill(i int) {
	s := &m.slots[i]
	s.off, s.from = i*m.slotLen, m.rng.IntN(len(noise)-m.slotLen)
	copy(m.mem.bytes()[s.off:][:m.slotLen], noise[s.from:])
}

// cut divides n bytes of a slot into one to four entries, with gaps between them. Empty entries are valid.
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

// intact reports whether a slot is unchanged except for the first n bytes that entries name. Entries lie in order.
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

// gathered returns the bytes that entries name.
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

// inboxModel is the expected contents of the peer's memory after all our Writes, and for each byte the Write that it is from.
type inboxModel struct {
	want   []byte
	stamp  []uint32 // index+1 of the newest Write of each byte
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

// inPlace reports whether the last of the first n Writes is in memory, except where a later one overwrote it.
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

// confined reports whether bytes outside our Writes are unchanged.
func (m *inboxModel) confined(memory []byte) bool {
	for i, stamp := range m.stamp {
		if stamp == 0 && memory[i] != m.want[i] {
			return false
		}
	}
	return true
}
