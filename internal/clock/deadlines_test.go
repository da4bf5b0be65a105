package clock

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestDeadlinesAgainstModel performs random operations on the heap and on a map, and compares the two.
func TestDeadlinesAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var d Deadlines
		model := map[uint32]Time{}
		now := Time(0)
		for range 500 {
			owner := uint32(rng.IntN(40))
			switch rng.IntN(5) {
			case 0, 1, 2:
				at := now + Time(rng.IntN(100))
				d.Set(owner, at)
				model[owner] = at
			case 3:
				d.Set(owner, Never)
				delete(model, owner)
			case 4:
				now += Time(rng.IntN(60))
				checkDue(t, &d, model, now)
			}
			checkNext(t, &d, model)
		}
	}
}

func checkDue(t *testing.T, d *Deadlines, model map[uint32]Time, now Time) {
	t.Helper()
	for {
		owner, ok := d.PopDue(now)
		if !ok {
			break
		}
		at, have := model[owner]
		if !have || at > now {
			t.Fatalf("owner %d popped at %d, model has %v %v", owner, now, at, have)
		}
		delete(model, owner)
	}
	for owner, at := range model {
		if at <= now {
			t.Fatalf("owner %d due at %d was not popped at %d", owner, at, now)
		}
	}
}

func checkNext(t *testing.T, d *Deadlines, model map[uint32]Time) {
	t.Helper()
	if d.Len() != len(model) {
		t.Fatalf("Len %d, model %d", d.Len(), len(model))
	}
	next := d.Next()
	for owner, at := range model {
		if next > at {
			t.Fatalf("Next %d is later than owner %d at %d", next, owner, at)
		}
	}
}

func TestDeadlinesAllocateNothingOnceWarm(t *testing.T) {
	var d Deadlines
	for i := range uint32(64) {
		d.Set(i, Time(i))
	}
	if n := testing.AllocsPerRun(100, func() {
		d.Set(5, 3)
		d.Set(5, 900)
		d.Set(6, Never)
		d.Set(6, 6)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestTimeAddSaturates(t *testing.T) {
	if got := Never.Add(1); got != Never {
		t.Errorf("Never.Add(1) = %d", got)
	}
	if got := (Never - 1).Add(5); got != Never {
		t.Errorf("(Never-1).Add(5) = %d", got)
	}
}

// BenchmarkDeadlines measures the cost of one connection's packets beside many idle connections, whose deadlines are spread over
// the next 100 s.
func BenchmarkDeadlines(b *testing.B) {
	for _, idle := range []uint32{0, 10_000, 100_000} {
		// In a ping-pong, a probe timer is set when the packet leaves, and moved to the keep-alive when the answer arrives. The
		// heap entry expires once in 200 µs.
		b.Run(fmt.Sprintf("active beside %d", idle), func(b *testing.B) {
			d, now := idleDeadlines(idle), Time(0)
			for b.Loop() {
				now += 2500
				d.Set(idle, now.Add(200*time.Microsecond))
				d.Set(idle, now.Add(10*time.Second))
				for {
					owner, due := d.PopDue(now)
					if !due {
						break
					}
					d.Set(owner, now.Add(100*time.Second))
				}
			}
		})
		if idle == 0 {
			continue
		}
		b.Run(fmt.Sprintf("keep-alive of %d", idle), func(b *testing.B) {
			d, now := idleDeadlines(idle), Time(0)
			for b.Loop() {
				now = d.Next()
				owner, _ := d.PopDue(now)
				d.Set(owner, now.Add(100*time.Second))
			}
		})
	}
}

func idleDeadlines(n uint32) *Deadlines {
	rng := rand.New(rand.NewPCG(1, 1))
	d := &Deadlines{}
	for owner := range n {
		d.Set(owner, Time(rng.Int64N(int64(100*time.Second))))
	}
	return d
}
