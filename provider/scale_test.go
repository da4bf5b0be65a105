package provider

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/lifetime"
	"github.com/ndxdp/ndxdp/wire"
)

// Limits on the memory of an idle connection, in bytes: alone, and with its connector and its table entries.
const (
	maxConnBytes = 512
	maxIdleBytes = 928
)

// TestMemoryOfIdleConnections measures the memory of one side of an idle connection, without the application's queue pair.
func TestMemoryOfIdleConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := reflect.TypeFor[conn]().Size(); n > maxConnBytes {
		t.Errorf("an idle connection has %d bytes", n)
	}
	const n = 10000
	f := newFleet(t, 0)
	before := heap()
	f.more(n)
	f.pass(3 * f.eng[0].cfg.IdleAfter)
	for i, e := range f.eng {
		if use := e.PoolUse(); use != (PoolUse{}) {
			t.Errorf("side %d is not idle: %+v", i, use)
		}
	}
	perEnd := (heap() - before) / n / 2
	queues := queueBytes(f.qps[0][0])
	t.Logf("%d bytes for each end of an idle connection, and %d for its queue pair", perEnd-queues, queues)
	if perEnd-queues > maxIdleBytes {
		t.Errorf("%d bytes for each end, beside the queue pair's %d", perEnd-queues, queues)
	}
	runtime.KeepAlive(f)
}

// TestHundredThousandConnections makes as many connections as a large server has, by the real handshake. It lets them idle through
// a round of keep-alives, writes on each of them, and closes them.
func TestHundredThousandConnections(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("takes five seconds of a core, and far more under the race detector")
	}
	const n = 100000
	f := newFleet(t, 0)
	began, before := time.Now(), heap()
	f.more(n)
	f.pass(3 * f.eng[0].cfg.IdleAfter)
	connected, queues := time.Since(began), n*queueBytes(f.qps[0][0])
	perEnd := (heap()-before)/2 - queues
	if perEnd > 100<<20 {
		t.Errorf("%d idle connections cost %d MiB beside their queues", n, perEnd>>20)
	}
	const idle = n / maxKeepAlives * time.Second // one keep-alive for each connection
	began = time.Now()
	f.pass(idle)
	idleFor := time.Since(began)
	r := f.write(0, 0, 64)
	began = time.Now()
	f.writeAll(r)
	wrote := time.Since(began)
	for side := range 2 {
		if s := f.eng[side].Stats(); s.Connections != n || s.Established != n || s.Lost != 0 {
			t.Fatalf("side %d: %+v", side, s)
		}
	}
	began = time.Now()
	f.close()
	t.Logf("%d connections: opened in %v, %d MiB for each end and %d MiB of queues; %v for %v of idling; %v to write on each; closed in %v",
		n, connected, perEnd>>20, queues>>20, idleFor, idle, wrote, time.Since(began))
}

// queueBytes returns how much memory a queue pair uses.
func queueBytes(qp *QP) uint64 {
	return size[QP](1) + size[workRequest](len(qp.sq.wrs)) + size[receiveRequest](len(qp.rq.wrs)) +
		size[SGE](len(qp.sq.sges)+len(qp.rq.sges))
}

// size returns how many bytes n values have.
func size[T any](n int) uint64 { return uint64(n) * uint64(reflect.TypeFor[T]().Size()) }

// heap returns how many bytes of the heap are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestOneEndAsks: if both sides received their last packet at the same time, one side sends PING, and the other side takes the PING
// for a sign of life.
func TestOneEndAsks(t *testing.T) {
	const n, rounds = 100, 5
	f := newFleet(t, n)
	var asked [2]int
	for side := range asked {
		f.link[1-side].mangle = func(b []byte) bool { // packets to the other side
			if opcode(b) == wire.CtlPing {
				asked[side]++
			}
			return true
		}
	}
	f.pass(rounds * (f.eng[0].cfg.KeepAlive + time.Second))
	if asked[0] < n*(rounds-1) || asked[0] > n*(rounds+1) || asked[1] != 0 {
		t.Errorf("the sides asked %d times in %d rounds of %d connections", asked, rounds, n)
	}
}

// TestKeepAlivesAreBounded: an engine with many idle connections sends PING less often on each of them.
func TestKeepAlivesAreBounded(t *testing.T) {
	const n, seconds = 2000, 8
	f := newFleet(t, n)
	for _, e := range f.eng {
		e.cfg.KeepAlive = 100 * time.Millisecond
	}
	f.pass(10 * time.Second)
	before := f.eng[0].Stats().PacketsOut + f.eng[1].Stats().PacketsOut
	f.pass(seconds * time.Second)
	packets := f.eng[0].Stats().PacketsOut + f.eng[1].Stats().PacketsOut - before
	// A keep-alive costs two packets, PING and PONG. Either side may send the PING.
	if most := uint64(2 * 2 * (maxKeepAlives*seconds + n)); packets == 0 || packets > most {
		t.Errorf("%d packets in %d idle seconds, want at most %d", packets, seconds, most)
	}
	for _, e := range f.eng {
		if s := e.Stats(); s.Connections != n || s.Lost != 0 {
			t.Errorf("%d connections, %d lost", s.Connections, s.Lost)
		}
	}
	f.link[1].mangle = func([]byte) bool { return false } // and it still notices that its peer is gone: after unanswered PINGs it falls silent itself
	f.pass(2*(n*time.Second/maxKeepAlives+(lifetime.MaxPings+1)*lifetime.PingInterval) + time.Second)
	if s := f.eng[0].Stats(); s.Connections != 0 {
		t.Errorf("%d of %d dead connections were not noticed", s.Connections, n)
	}
	if lost := f.eng[0].Stats().Lost + f.eng[1].Stats().Lost; lost < n {
		t.Errorf("%d lost connections of %d were counted", lost, n)
	}
}

// TestQuietPeersAreAskedInOneTurn: connections whose peers fell silent one after another do not wake their engine one by one.
func TestQuietPeersAreAskedInOneTurn(t *testing.T) {
	const n, apart = 64, 4 * time.Millisecond // within one or two intervals of 312 ms
	f := newFleet(t, 0)
	for range n {
		f.more(1)
		f.pass(apart)
	}
	moments, packets := map[int64]bool{}, 0
	f.link[0].mangle = func([]byte) bool {
		packets++
		moments[int64(f.now)/int64(apart)] = true
		return true
	}
	f.pass(f.eng[0].cfg.KeepAlive + time.Second)
	if packets < n || len(moments) > 8 {
		t.Errorf("%d packets in %d moments", packets, len(moments))
	}
}
