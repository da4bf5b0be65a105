package trace

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// For any sequence of limits and idle periods, the shares are those of a model that counts every microsecond, and their sum is the
// age.
func TestSharesAgainstATwin(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var totals LimitTotals
		var history LimitHistory
		times := new(LimitTimes)
		times.Begin(start)
		totals.Enter(start, LimitApplication)
		var want [NumLimits]time.Duration
		now, by, rests := start, LimitApplication, false
		for range 1000 {
			d := time.Duration(rng.IntN(5000)) * time.Microsecond
			now, want[by] = now.Add(d), want[by]+d
			switch {
			case rests:
				*times, rests = LimitTimes{}, false
				times.Begin(now)
			case rng.IntN(10) == 0:
				times.Note(now, LimitApplication, &totals)
				history.Add(times)
				rests, by = true, LimitApplication
			default:
				by = Limit(rng.IntN(int(NumLimits)))
				times.Note(now, by, &totals)
				if times.By() != by {
					t.Fatalf("by %v, want %v", times.By(), by)
				}
			}
		}
		account := times
		if rests {
			account = nil
		}
		sum := time.Duration(0)
		for l, got := range history.Shares(now.Sub(start), account, now) {
			if sum += got; (got - want[l]).Abs() > time.Millisecond {
				t.Errorf("seed %d, %v: %v, want %v", seed, Limit(l), got, want[l])
			}
		}
		if sum != now.Sub(start) {
			t.Errorf("seed %d: the shares are %v of %v", seed, sum, now.Sub(start))
		}
		for l, got := range totals.Micros(now) {
			if time.Duration(got)*time.Microsecond != want[l] {
				t.Errorf("seed %d, totals, %v: %d µs, want %v", seed, Limit(l), got, want[l])
			}
		}
	}
}

// Rounding may make the parts larger than the whole. The application's share is still not negative.
func TestSharesAreNeverNegative(t *testing.T) {
	history := LimitHistory{LimitReceive - 1: 2}
	if s := history.Shares(time.Second, nil, start); s[LimitApplication] != 0 || s[LimitReceive] != 2*time.Second {
		t.Errorf("%v", s)
	}
}

// Totals count connections and their time. They do not fall when connections end, and fractions of a microsecond are not lost.
func TestLimitTotals(t *testing.T) {
	var s LimitTotals
	now := clock.Time(0)
	for range 3 {
		s.Enter(now, LimitFabric)
	}
	for range 1000 {
		now = now.Add(999 * time.Nanosecond)
		s.Micros(now)
	}
	if got := s.Micros(now)[LimitFabric]; got != 3*999 {
		t.Errorf("%d µs of three connections", got)
	}
	s.move(now, LimitFabric, LimitRing)
	s.Exit(now, LimitFabric)
	s.Exit(now, LimitFabric)
	if got := s.Limited(); got[LimitRing] != 1 || got[LimitFabric] != 0 {
		t.Errorf("counts %v", got)
	}
	now = now.Add(time.Millisecond)
	if got := s.Micros(now); got[LimitRing] != 1000 || got[LimitFabric] != 3*999 {
		t.Errorf("sums %v", got)
	}
	if got := s.Micros(now.Add(-time.Second)); got[LimitRing] != 1000 {
		t.Errorf("an earlier time changes sums: %v", got)
	}
}

func TestNamesOfLimits(t *testing.T) {
	seen := map[string]bool{}
	for l := range NumLimits {
		if seen[l.String()] || l.String() == "" {
			t.Errorf("limit %d is called %q", uint8(l), l)
		}
		seen[l.String()] = true
	}
}

// Accounts are updated for each packet, so they allocate nothing.
func TestAllocLimitTimes(t *testing.T) {
	var totals LimitTotals
	var l LimitTimes
	totals.Enter(start, LimitApplication)
	now := start
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Microsecond)
		l.Note(now, LimitRing, &totals)
		l.Note(now, LimitApplication, &totals)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
