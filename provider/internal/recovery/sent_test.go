package recovery

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/space"
	"github.com/ndxdp/ndxdp/wire"
)

func started(first uint64, size int) *Sent {
	s := new(Sent)
	s.Start(first, first, make([]Packet, size))
	return s
}

// carrying is a transmission of some bytes of one message.
func carrying(k Kind, message uint32) Packet {
	return Packet{At: clock.Time(message), From: space.At(message, 0), To: space.At(message+1, 0), Size: 100, Kind: k}
}

// Packet numbers are consecutive, and each transmission is found by its number until it is removed.
func TestTransmissionsByNumber(t *testing.T) {
	first := uint64(1<<32 - 3) // the low bits wrap around
	s := started(first, 8)
	for i := range uint64(8) {
		if s.Full() {
			t.Fatalf("full with %d", i)
		}
		if n := s.Add(carrying(Requests, uint32(100+i))); n != first+i {
			t.Fatalf("number %d, want %d", n, first+i)
		}
	}
	if !s.Full() {
		t.Fatal("not full")
	}
	s.Drop()
	s.Drop()
	old := s.Resize(make([]Packet, 32))
	if len(old) != 8 || len(s.Ring()) != 32 || s.Full() || s.Floor() != first+2 {
		t.Fatalf("ring of %d, floor %d", len(old), s.Floor())
	}
	for n := s.Floor(); n != s.Next(); n++ {
		if p := s.Packet(n); *p != carrying(Requests, uint32(100+n-first)) {
			t.Errorf("number %d carries %+v", n, p)
		}
	}
	if n, ok := s.Expand(uint32(first + 4)); !ok || n != first+4 {
		t.Errorf("expanded to %d, %v", n, ok)
	}
}

// A packet has a pause before it only if no other packet was in flight when it left. Packets without contents do not count.
func TestPause(t *testing.T) {
	s := started(10, 8)
	add := func(at clock.Time, k Kind) uint64 { return s.Add(Packet{At: at, Size: 100, Kind: k}) }
	first, second := add(1000, Requests), add(1300, Responses)
	if got := [2]time.Duration{s.Pause(first), s.Pause(second)}; got != [2]time.Duration{1000, 0} {
		t.Errorf("pauses %v, want 1µs before the first packet alone", got)
	}
	s.Acknowledge(first)
	if behind := add(1400, Requests); s.Pause(behind) != 0 {
		t.Errorf("a pause of %v while a packet was in flight", s.Pause(behind))
	}
	s.Acknowledge(second)
	s.Acknowledge(second + 1)
	nothing, last := add(1500, Nothing), add(1700, Requests)
	if s.Pause(last) != 300 || s.Pause(nothing) != 0 || s.Pause(first) != 0 {
		t.Errorf("pauses %v, %v and %v, want 300ns, 0 and 0", s.Pause(last), s.Pause(nothing), s.Pause(first))
	}
}

// A peer that acknowledges the same transmissions again and again causes one step for each block: acknowledged transmissions are
// skipped together, however ranges overlap.
func TestAcknowledgedAgainWithoutAWalk(t *testing.T) {
	const first, n = 10, 1 << 12
	s := started(first, n)
	for i := range uint32(n) {
		s.Add(carrying(Responses, i))
	}
	take := func(low, high uint64) (fresh int) {
		for n := s.Unknown(low, high); n <= high; n = s.Unknown(n+1, high) {
			if p, _ := s.Acknowledge(n); p == nil {
				t.Fatalf("%d was known", n)
			}
			fresh++
		}
		return fresh
	}
	const last = first + n - 1
	if got := take(first+100, first+200); got != 101 {
		t.Errorf("%d are new", got)
	}
	if got := take(first+1, last); got != n-1-101 {
		t.Errorf("%d are new", got)
	}
	for range 2 {
		if got := take(first+1, last); got != 0 {
			t.Errorf("%d are new of what is known", got)
		}
	}
	for low := uint64(first + 1); low <= last; low++ {
		s.Unknown(low, last)
		if p := s.Packet(low); low+uint64(p.run) <= last {
			t.Fatalf("after it was named, the transmission %d leads to %d, and the last is %d", low, low+uint64(p.run), last)
		}
	}
	if s.Unknown(first, last) != first {
		t.Error("one that has not arrived is passed over")
	}
}

// A transmission is acknowledged once. Transmissions below the floor are forgotten.
func TestAcknowledgedOnce(t *testing.T) {
	s := started(10, 16)
	for i := range uint32(5) {
		s.Add(carrying(Responses, i))
	}
	if s.Passed() != 0 {
		t.Error("something is passed before anything was acknowledged")
	}
	if p, was := s.Acknowledge(13); p == nil || p.From.Message() != 3 || was != 0 || s.Passed() != 13 {
		t.Errorf("acknowledged %+v, passed %d", p, s.Passed())
	}
	if p, _ := s.Acknowledge(13); p != nil {
		t.Error("acknowledged twice")
	}
	if p, _ := s.Acknowledge(11); p == nil || s.Passed() != 13 {
		t.Errorf("acknowledged %+v, passed %d", p, s.Passed())
	}
	s.Drop()
	if p, _ := s.Acknowledge(10); p != nil {
		t.Error("acknowledged below the floor")
	}
}

// If a packet arrives that counted as lost, its earlier state is returned, and it stays out of the bytes in flight.
func TestArrivedAfterAll(t *testing.T) {
	for _, state := range []State{Lost, Again} {
		s := started(10, 16)
		s.Add(carrying(Requests, 0))
		s.Mark(s.Packet(10), state)
		if s.InFlight() != 0 || s.PacketsInFlight() != 0 {
			t.Errorf("%d packets are in flight after the only one was marked %d", s.PacketsInFlight(), state)
		}
		if p, was := s.Acknowledge(10); p == nil || was != state || p.State != state|Acked {
			t.Errorf("acknowledged %+v that was %d", p, was)
		}
		if s.InFlight() != 0 || s.PacketsInFlight() != 0 || s.Violation() != "" {
			t.Errorf("%d bytes in flight: %s", s.InFlight(), s.Violation())
		}
	}
}

// A voided transmission is not in flight, whatever its state was.
func TestVoid(t *testing.T) {
	s := started(5, 16)
	for i := range uint32(6) {
		s.Add(carrying(Kind(i%2), i))
	}
	s.Add(carrying(Nothing, 0))
	s.Acknowledge(5)
	s.Mark(s.Packet(7), Lost)
	s.VoidAll(Requests)
	if s.PacketsInFlight() != 3 || s.InFlight() != 300 || s.Oldest() != 6 || s.Violation() != "" {
		t.Errorf("%d packets of %d bytes in flight, the oldest is %d: %s", s.PacketsInFlight(), s.InFlight(), s.Oldest(), s.Violation())
	}
	for n := s.Floor(); n != s.Next(); n++ {
		if k := s.Packet(n).Kind; k == Requests {
			t.Errorf("number %d still counts", n)
		}
	}
	s.Void(s.Packet(6))
	if s.PacketsInFlight() != 2 || s.Oldest() != 8 {
		t.Errorf("%d packets in flight, the oldest is %d", s.PacketsInFlight(), s.Oldest())
	}
	if p, _ := s.Acknowledge(6); p == nil || p.Kind != Nothing || s.PacketsInFlight() != 2 {
		t.Errorf("acknowledged %+v, %d in flight", p, s.PacketsInFlight())
	}
}

// sentModel is a list of transmissions, the model of a Sent.
type sentModel struct {
	t     *testing.T
	sent  *Sent
	first uint64
	floor uint64
	all   []Packet // from first on
}

func (m *sentModel) check() {
	m.t.Helper()
	bytes, packets, oldest := 0, 0, uint64(0)
	for i, p := range m.all {
		n := m.first + uint64(i)
		if n < m.floor {
			continue
		}
		if got := m.sent.Packet(n); *got != p {
			m.t.Fatalf("number %d is %+v, want %+v", n, got, p)
		}
		if p.State == 0 && p.Kind != Nothing {
			bytes += int(p.Size)
			if packets++; packets == 1 {
				oldest = n
			}
		}
	}
	next := m.first + uint64(len(m.all))
	if packets == 0 {
		oldest = next
	}
	s := m.sent
	if s.InFlight() != bytes || s.PacketsInFlight() != packets || s.Oldest() != oldest || s.Next() != next || s.Floor() != m.floor {
		m.t.Fatalf("%d packets of %d bytes from %d on, want %d of %d from %d on", s.PacketsInFlight(), s.InFlight(), s.Oldest(), packets, bytes, oldest)
	}
	if v := s.Violation(); v != "" {
		m.t.Fatal(v)
	}
}

// In any order of events, the bytes in flight and the oldest packet in flight are those of the model.
func TestInFlightAgainstAList(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &sentModel{t: t, first: 1<<32 - 50, floor: 1<<32 - 50}
		m.sent = started(m.first, 16)
		for range 3000 {
			next := m.first + uint64(len(m.all))
			if m.sent.Full() {
				if rng.IntN(20) == 0 && len(m.sent.Ring()) < 256 {
					m.sent.Resize(make([]Packet, 4*len(m.sent.Ring())))
				} else {
					m.dropOldest()
				}
			}
			switch n := m.floor + uint64(rng.IntN(int(next-m.floor)+1)); {
			case n == next || rng.IntN(3) == 0:
				p := Packet{Kind: Kind(rng.IntN(3)), Size: uint16(rng.IntN(9000)), At: clock.Time(len(m.all)), Losses: uint8(rng.IntN(3))}
				m.all = append(m.all, p)
				if got := m.sent.Add(p); got != next {
					t.Fatalf("number %d, want %d", got, next)
				}
			default:
				m.change(rng, n)
			}
			m.check()
		}
	}
}

// dropOldest removes the oldest transmission if it is not in flight any more.
func (m *sentModel) dropOldest() {
	p := &m.all[m.floor-m.first]
	if p.State == 0 && p.Kind != Nothing {
		p.State |= Lost
		m.sent.Mark(m.sent.Packet(m.floor), Lost)
	}
	m.sent.Drop()
	m.floor++
}

// change applies a random event to a transmission.
func (m *sentModel) change(rng *rand.Rand, n uint64) {
	p := &m.all[n-m.first]
	switch rng.IntN(5) {
	case 0, 1:
		known := p.State&Acked != 0
		was := p.State
		got, gotWas := m.sent.Acknowledge(n)
		if (got == nil) != known || !known && gotWas != was {
			m.t.Fatalf("number %d, which was %d: acknowledged %v, was %d", n, was, got != nil, gotWas)
		}
		p.State |= Acked
	case 2, 3:
		state := []State{Lost, Again}[rng.IntN(2)]
		m.sent.Mark(m.sent.Packet(n), state)
		p.State |= state
	default:
		m.sent.Void(m.sent.Packet(n))
		p.Kind = Nothing
	}
}

// A block that acknowledges packets that were never sent is refused, at both ends of its range and however far it reaches.
func TestResolve(t *testing.T) {
	for _, first := range []uint64{0, 5, 1<<31 - 1, 1<<32 - 2, 1<<40 + 7} {
		s := started(first, 16)
		block := func(largest uint64, last uint32) *wire.Ack {
			a := &wire.Ack{Largest: uint32(largest), N: 1}
			a.Ranges[0].Last = last
			return a
		}
		if _, ok := s.Resolve(block(first, 0)); ok {
			t.Errorf("from %d: acknowledged before anything was sent", first)
		}
		for range 10 {
			s.Add(Packet{Kind: Nothing})
		}
		for _, c := range []struct {
			largest uint64
			last    uint32
			ok      bool
		}{
			{first, 0, true},
			{first + 9, 0, true},
			{first + 9, 9, true},
			{first + 9, 10, false},
			{first, 1, false},
			{first + 10, 0, false},
			{first + 1<<31, 0, false},
			{first - 1, 0, false},
			{first + 9, 1<<32 - 1, false},
		} {
			largest, ok := s.Resolve(block(c.largest, c.last))
			if ok != c.ok || ok && largest != c.largest {
				t.Errorf("from %d: block of %d and %d below: %d, %v", first, c.largest, c.last, largest, ok)
			}
		}
	}
}

// A connection that leaves its idle state keeps its packet numbers, and its first number.
func TestStartAgain(t *testing.T) {
	s := new(Sent)
	s.Start(3, 1<<33, make([]Packet, 8))
	if n := s.Add(Packet{Kind: Nothing}); n != 1<<33 || s.First() != 3 {
		t.Errorf("number %d, first %d", n, s.First())
	}
	if _, ok := s.Expand(1<<31 + 5); !ok {
		t.Error("a number from before the rest was never sent")
	}
	if p, _ := s.Acknowledge(1<<33 - 1); p != nil {
		t.Error("a transmission from before the rest is remembered")
	}
}

// Acknowledged transmissions are forgotten. Lost ones are forgotten some round trips later.
func TestForget(t *testing.T) {
	s := started(20, 16)
	r := RTT{Smoothed: 100 * us}
	for i := range uint32(5) {
		s.Add(carrying(Requests, i))
	}
	s.Acknowledge(20)
	s.Mark(s.Packet(21), Lost)
	s.Acknowledge(23)
	s.Packet(21).At = 0
	for _, step := range []struct {
		now   time.Duration
		waits bool // contents of the lost packet wait to be sent again
		floor uint64
	}{{learntAfter * 100 * us, false, 21}, {learntAfter*100*us + 1, true, 21}, {learntAfter*100*us + 1, false, 22}, {time.Hour, false, 22}} {
		waits := func(p *Packet) bool { return step.waits && p == s.Packet(21) }
		if s.Forget(&r, clock.Time(step.now), waits); s.Floor() != step.floor {
			t.Errorf("after %v, waits %v, the floor is %d, want %d", step.now, step.waits, s.Floor(), step.floor)
		}
	}
	s.Acknowledge(22)
	if s.Forget(&r, 0, func(*Packet) bool { return false }); s.Floor() != 23 {
		t.Errorf("the floor is %d: what nothing overtook is forgotten, or what was is not", s.Floor())
	}
}
