//go:build !race

package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A grant of memory ends while requests use it: the owner invalidates or releases the window, or deregisters or closes the region,
// with and without packet loss. Either the connection ends with the right status or nothing ends, and nothing is written after the
// end of the grant (side.checkRevoked).
func TestGrantsThatEndWhileTheyAreUsed(t *testing.T) {
	var ended, lasted [numRevocations]int
	for seed := range uint64(150) {
		cond := Conditions{Delay: 20 * time.Microsecond, Jitter: 10 * time.Microsecond, Rates: Rates{Revoke: 10000, Loss: int(seed%3) * 500}}
		w := &world{net: NewNetwork(seed, cond, nil), rng: rand.New(rand.NewPCG(seed, 1))}
		for range 2 {
			w.net.AddHost(bulkConfig(testMTU))
		}
		w.sessions = append(w.sessions, w.net.newSession("s.", 1000, w.net.hosts[0], w.net.hosts[1], mostRequests, 0))
		w.live()
		if len(w.net.broken) > 0 {
			t.Fatalf("seed %d: %v", seed, w.net.broken)
		}
		switch r := w.sessions[0].revoked; {
		case r.failed():
			ended[r.how]++
		case r != nil:
			lasted[r.how]++
		}
	}
	t.Logf("connections ended %v, lasted %v", ended, lasted)
	for how, n := range ended {
		if n == 0 {
			t.Errorf("no connection ended by revocation %d", how)
		}
	}
}
