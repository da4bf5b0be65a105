package recovery

import (
	"testing"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

func started(first uint64, size int) *Sent {
	s := new(Sent)
	s.Start(first, first, make([]Packet, size))
	return s
}

// Numbers follow each other, and each transmission is found under its own until it is dropped.
func TestTransmissionsByNumber(t *testing.T) {
	first := uint64(1<<32 - 3) // the low bits go round
	s := started(first, 8)
	for i := range uint64(8) {
		if s.Full() {
			t.Fatalf("full with %d", i)
		}
		if n := s.Add(clock.Time(i), Requests, wire.PSN(100+i)); n != first+i {
			t.Fatalf("number %d, want %d", n, first+i)
		}
	}
	if !s.Full() {
		t.Fatal("not full")
	}
	s.Drop()
	s.Drop()
	old := s.Grow(make([]Packet, 32))
	if len(old) != 8 || s.Full() || s.Floor() != first+2 {
		t.Fatalf("ring of %d, floor %d", len(old), s.Floor())
	}
	for n := s.Floor(); n != s.Next(); n++ {
		if p := s.Packet(n); p.PSN != wire.PSN(100+n-first) {
			t.Errorf("number %d carries %d", n, p.PSN)
		}
	}
	if n, ok := s.Expand(uint32(first + 4)); !ok || n != first+4 {
		t.Errorf("expanded to %d, %v", n, ok)
	}
}

// A transmission is acknowledged once. What is below the floor is not known any more.
func TestAcknowledgedOnce(t *testing.T) {
	s := started(10, 16)
	for i := range 5 {
		s.Add(clock.Time(i), Responses, wire.PSN(i))
	}
	if s.Passed() != 0 {
		t.Error("something is passed before anything was acknowledged")
	}
	if p := s.Acknowledge(13); p == nil || p.PSN != 3 || s.Passed() != 13 {
		t.Errorf("acknowledged %+v, passed %d", p, s.Passed())
	}
	if s.Acknowledge(13) != nil {
		t.Error("acknowledged twice")
	}
	if p := s.Acknowledge(11); p == nil || s.Passed() != 13 {
		t.Errorf("acknowledged %+v, passed %d", p, s.Passed())
	}
	s.Drop()
	if s.Acknowledge(10) != nil {
		t.Error("acknowledged below the floor")
	}
}

// A block that acknowledges what was never sent is refused, at both ends and however far it reaches.
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
			s.Add(0, Nothing, 0)
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

// A connection that comes back from its rest goes on with its numbers, and still knows what it began with.
func TestStartAgain(t *testing.T) {
	s := new(Sent)
	s.Start(3, 1<<33, make([]Packet, 8))
	if n := s.Add(0, Nothing, 0); n != 1<<33 || s.First() != 3 {
		t.Errorf("number %d, first %d", n, s.First())
	}
	if _, ok := s.Expand(1<<31 + 5); !ok {
		t.Error("a number from before the rest was never sent")
	}
	if s.Acknowledge(1<<33-1) != nil {
		t.Error("a transmission from before the rest is remembered")
	}
}
