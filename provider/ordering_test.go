package provider

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/wire"
)

// The ordering guarantees (PROTOCOL §9.1), one test for each, under loss, reordering and duplication.

// storm loses, delays and doubles packets in both directions.
type storm struct {
	*pair
	rng  *rand.Rand
	late [2][][]byte
	from [2]wire.Endpoint
	calm bool
}

// inStorms runs f on a connected pair for several seeds.
func inStorms(t *testing.T, f func(t *testing.T, s *storm)) {
	for seed := range uint64(6) {
		p := newPair(t, 1408).connect()
		s := &storm{pair: p, rng: rand.New(rand.NewPCG(seed, 9))}
		for side := range 2 {
			s.from[side] = p.conn(side).identity.remote
			p.link[side].mangle = func(b []byte) bool { return s.mangle(side, b) }
		}
		f(t, s)
		s.until(func() bool { return len(s.late[0])+len(s.late[1]) == 0 })
		p.pass(20 * time.Millisecond)
		for side, e := range p.eng {
			if free := len(p.link[side].rxFree); free != pipeFrames {
				t.Errorf("side %d: %d frames are free", side, free)
			}
			if what := e.Violation(); what != "" {
				t.Errorf("side %d: %s", side, what)
			}
		}
	}
}

func (s *storm) mangle(side int, b []byte) bool {
	if s.calm {
		return true
	}
	switch n := s.rng.IntN(100); {
	case n < 5:
		return false
	case n < 30:
		s.late[side] = append(s.late[side], slices.Clone(b))
		return false
	case n < 35:
		s.late[side] = append(s.late[side], slices.Clone(b))
	}
	return true
}

// until advances the time until done returns true, and calls it after every poll.
func (s *storm) until(done func() bool) {
	s.tb.Helper()
	for range 200000 {
		if done() {
			return
		}
		for side := range s.late {
			if n := len(s.late[side]); n > 0 && s.rng.IntN(3) == 0 {
				i := s.rng.IntN(n)
				b := s.late[side][i]
				s.late[side] = slices.Delete(s.late[side], i, i+1)
				tx := &TxPacket{N: 1, Len: len(b)}
				tx.Frags[0].Data = b
				s.calm = true
				s.link[side].deliver(tx, s.from[side], wire.Endpoint{IP: pairIP[side], Port: wire.DefaultPort})
				s.calm = false
			}
		}
		if !s.turn() {
			next := min(s.eng[0].NextDeadline(), s.eng[1].NextDeadline())
			s.now = max(s.now, min(next, s.now.Add(20*time.Microsecond)))
		}
	}
	s.tb.Fatal("it never ends")
}

// await polls n results of side. All of them must be successes.
func (s *storm) await(side, n int) (rs []Result) {
	s.tb.Helper()
	s.until(func() bool { rs = append(rs, s.results(side)...); return len(rs) >= n })
	for _, r := range rs {
		if r.Outcome != OutcomeSuccess {
			s.tb.Fatalf("%+v", r)
		}
	}
	return rs
}

// A receive completes when the WRITEs before its SEND are in place. A byte of a message is visible only when all bytes before it
// are.
func TestOrderWriteThenSend(t *testing.T) {
	const n, rounds = 3000, 60
	inStorms(t, func(t *testing.T, s *storm) {
		for k := range uint32(rounds) {
			s.receive(1, 3<<20, 10)
			s.fill(0, k*n, n, byte(k+1))
		}
		s.runUntilIdle()
		for k := range uint32(rounds) {
			s.post(0, s.write(0, k*n, n))
			s.post(0, s.send(0, 10))
		}
		mem, received := s.reg[1].Bytes(), 0
		s.until(func() bool {
			received += len(s.results(1))
			for k := range received {
				if !s.all(1, uint32(k*n), n, byte(k+1)) {
					t.Fatalf("message %d came before its bytes", k)
				}
			}
			gap := slices.Index(mem[:rounds*n], 0)
			if gap >= 0 && slices.ContainsFunc(mem[gap:rounds*n], func(b byte) bool { return b != 0 }) {
				t.Fatal("memory was not written in order")
			}
			return received == rounds
		})
	})
}

// A READ sees the data of all WRITEs and SENDs before it.
func TestOrderWriteAndSendThenRead(t *testing.T) {
	const n, rounds = 2000, 40
	inStorms(t, func(t *testing.T, s *storm) {
		for range rounds {
			s.receive(1, 1<<20, n)
		}
		s.runUntilIdle()
		for k := range uint32(rounds) {
			s.fill(0, 0, 2*n, byte(k+1))
			s.post(0, s.write(0, 0, n))
			s.post(0, s.send(0, n)) // to 1 MiB
			for i, from := range []uint64{0, 1 << 20} {
				r := s.read(2<<20+(2*k+uint32(i))*n, n)
				r.Addr = s.reg[1].Base() + from
				s.post(0, r)
			}
			s.await(0, 4) // the source does not change for so long
		}
		for k := range uint32(2 * rounds) {
			if !s.all(0, 2<<20+k*n, n, byte(k/2+1)) {
				t.Fatalf("READ %d returned other bytes", k)
			}
		}
	})
}

// A WRITE or SEND after a READ may overtake it, unless it has the read fence.
func TestOrderReadThenFencedWrite(t *testing.T) {
	const n, rounds = 2000, 40
	inStorms(t, func(t *testing.T, s *storm) {
		for k := range uint32(rounds) {
			s.fill(0, k*n, n, byte(k+1))
		}
		for k := range uint32(rounds) {
			r := s.read(1<<20+k*n, n) // the data of the Write in the previous round
			r.Addr = s.reg[1].Base()
			s.post(0, r)
			w := s.write(0, k*n, n)
			w.Addr, w.Flags = s.reg[1].Base(), FlagReadFence
			s.post(0, w)
		}
		s.await(0, 2*rounds)
		for k := range uint32(rounds) {
			if !s.all(0, 1<<20+k*n, n, byte(k)) {
				t.Fatalf("READ %d saw a later Write, or not the one before", k)
			}
		}
	})
}

// If several WRITEs go to the same address, the last one determines the contents.
func TestOrderWriteThenWrite(t *testing.T) {
	const n, rounds = 4000, 30
	inStorms(t, func(t *testing.T, s *storm) {
		for k := range uint32(rounds) {
			s.fill(0, k*n, n, byte(k+1))
			w := s.write(0, k*n, n)
			w.Addr = s.reg[1].Base()
			s.post(0, w)
		}
		s.await(0, rounds)
		if !s.all(1, 0, n, rounds) || slices.Contains(s.reg[1].Bytes()[:n], 0) || !s.all(1, n, n, 0) {
			t.Fatal("wrong bytes")
		}
	})
}

// Results come in the order of posting on both sides.
func TestOrderOfCompletions(t *testing.T) {
	inStorms(t, func(t *testing.T, s *storm) {
		var w *MemoryWindow
		for k := range uint64(64) {
			_, o := s.qp[1].PostReceive(k, s.sge(1, 1<<20, 5000), 5000)
			s.must(o)
		}
		s.runUntilIdle()
		for k := range uint64(200) {
			r := s.write(0, 0, uint32(s.rng.IntN(4000)))
			switch s.rng.IntN(5) {
			case 0:
				r = s.read(0, uint32(s.rng.IntN(4000)))
			case 1:
				if k < 64 {
					r = s.send(0, uint32(s.rng.IntN(4000)))
				}
			case 2:
				w = s.window(0)
				_, o := s.qp[0].Bind(&BindRequest{Window: w, Region: s.reg[0], Addr: s.reg[0].Base(), Context: k})
				s.must(o)
				continue
			case 3:
				if w != nil {
					_, o := s.qp[0].Invalidate(k, w, PostFlags(k)&FlagReadFence)
					s.must(o)
					w = nil
					continue
				}
			}
			r.Context = k
			s.post(0, r)
		}
		last, received := -1, -1
		s.until(func() bool {
			for _, r := range s.results(0) {
				if r.Outcome != OutcomeSuccess || int(r.RequestContext) != last+1 {
					t.Fatalf("%+v after %d", r, last)
				}
				last = int(r.RequestContext)
			}
			for _, r := range s.results(1) {
				if r.Outcome != OutcomeSuccess || int(r.RequestContext) != received+1 {
					t.Fatalf("%+v after %d", r, received)
				}
				received++
			}
			return s.qp[0].Outstanding() == 0
		})
	})
}

// Bind and Invalidate take effect in posting order. A token may be sent right after its Bind. A SEND with invalidate ends the
// binding before its receive completes.
func TestOrderBindSendAndInvalidate(t *testing.T) {
	const rounds = 30
	inStorms(t, func(t *testing.T, s *storm) {
		w := s.window(1)
		for k := range uint32(rounds) {
			s.receive(0, 1<<20, 4)
			s.receive(1, 1<<20, 4)
			s.runUntilIdle()
			s.must(s.bind(1, w, uint64(k), 5000, FlagAllowWrite))
			token := binary.BigEndian.AppendUint32(nil, uint32(w.Token()))
			s.post(1, &listed{Request: Request{Kind: KindSend, Flags: FlagInline | FlagSilentSuccess, Inline: token, Length: 4}})
			s.await(0, 1)
			told := Token(binary.BigEndian.Uint32(s.reg[0].Bytes()[1<<20:]))
			s.fill(0, k, 5000, byte(k+1))
			r := s.write(0, k, 5000)
			r.Token, r.Flags = told, FlagSilentSuccess
			s.post(0, r)
			inv := s.send(0, 4)
			inv.Flags, inv.Token = FlagInvalidate|FlagSilentSuccess, told
			s.post(0, inv)
			rs := s.await(1, 2) // results of the Bind and of the receive
			if got := rs[1].Invalidated; got != w.Token() || w.Bound() || !s.all(1, k, 5000, byte(k+1)) {
				t.Fatalf("round %d: %#x", k, got)
			}
			s.until(func() bool { return s.qp[0].Outstanding()+s.qp[1].Outstanding() == 0 })
			s.must(s.bind(1, w, 0, 64, 0))
			_, o := s.qp[1].Invalidate(0, w, 0)
			s.must(o)
			s.await(1, 2)
		}
	})
}

// A wrong token ends the connection, and requests posted after it are not executed.
func TestOrderSendWithAWrongTokenTerminates(t *testing.T) {
	inStorms(t, func(t *testing.T, s *storm) {
		w := s.grant(64, FlagAllowWrite)
		s.receive(1, 1<<20, 4)
		s.receive(1, 1<<20, 4)
		s.runUntilIdle()
		inv := s.send(0, 4)
		inv.Flags, inv.Token = FlagInvalidate, w.Token()^1
		s.post(0, s.write(0, 0, 10))
		s.post(0, inv)
		s.post(0, s.send(0, 4))
		var rs []Result
		s.until(func() bool { rs = append(rs, s.results(0)...); return len(rs) == 3 })
		if rs[0].Outcome != OutcomeSuccess || rs[1].Outcome != OutcomeRemoteError || rs[2].Outcome != OutcomeCanceled {
			t.Fatalf("%+v", rs)
		}
		s.outcomes(1, OutcomeCanceled, OutcomeCanceled)
	})
}
