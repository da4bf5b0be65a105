//go:build !race

package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// If a link goes down during a connection and comes back, the connection continues. If the link is gone for good, everything at its
// host has a result at once, the peer learns of it, and no memory is touched that was not granted.
func TestLinksThatEnd(t *testing.T) {
	for _, fault := range []Fault{LinkDown, LinkGone} {
		hit := 0
		for seed := range uint64(40) {
			cond := Conditions{Delay: 20 * time.Microsecond, Jitter: 10 * time.Microsecond, Rates: Rates{Loss: int(seed%3) * 300}}
			cond.Rates[fault] = 10000
			generator := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
			w := &world{net: NewNetwork(seed, cond, nil), rng: generator(1), lanes: generator(2), floods: generator(3), links: generator(4), longs: generator(5), mishaps: 1}
			for range 2 {
				w.net.AddHost(bulkConfig(testMTU))
			}
			w.sessions = append(w.sessions, w.net.newSession("s.", 1000, w.net.hosts[0], w.net.hosts[1], mostRequests, 1))
			w.net.After(between(w.rng, 0, 10*time.Millisecond), w.randomFault)
			w.live()
			if len(w.net.broken) > 0 {
				t.Fatalf("%v, seed %d: %v", fault, seed, w.net.broken)
			}
			if s := w.sessions[0]; w.net.Happened[fault] > 0 && s.crashed == (fault == LinkGone) {
				hit++
			}
		}
		if hit < 15 {
			t.Errorf("%v hit %d connections", fault, hit)
		}
	}
}
