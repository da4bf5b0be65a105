package provider

import (
	"reflect"
	"runtime"
	"testing"
	"time"
)

// What an idle connection may cost, in bytes: itself, and with its connector and its places in tables.
const (
	maxConnBytes = 512
	maxIdleBytes = 960
)

// TestMemoryOfIdleConnections measures what one end of a connection at rest keeps, beside the application's queue pair.
func TestMemoryOfIdleConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if n := reflect.TypeFor[conn]().Size(); n > maxConnBytes {
		t.Errorf("a connection at rest has %d bytes", n)
	}
	const n = 10000
	f := newFleet(t, 0)
	before := heap()
	f.more(n)
	f.pass(3 * f.eng[0].cfg.Rest)
	for i, e := range f.eng {
		if use := e.PoolUse(); use != (PoolUse{}) {
			t.Errorf("side %d is not at rest: %+v", i, use)
		}
	}
	perEnd := (heap() - before) / n / 2
	qp := f.qps[0][0]
	queues := size[QP](1) + size[workRequest](len(qp.sq.wrs)) + size[receiveRequest](len(qp.rq.wrs)) + size[SGE](len(qp.sq.sges)+len(qp.rq.sges))
	t.Logf("%d bytes for each end of an idle connection, and %d for its queue pair", perEnd-queues, queues)
	if perEnd-queues > maxIdleBytes {
		t.Errorf("%d bytes for each end, beside the queue pair's %d", perEnd-queues, queues)
	}
	runtime.KeepAlive(f)
}

// size is how many bytes n values have.
func size[T any](n int) uint64 { return uint64(n) * uint64(reflect.TypeFor[T]().Size()) }

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestKeepAlivesAreBounded: an engine with many idle connections asks each of them less often.
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
	// A question costs three packets: PING, PONG and ACK. Both sides may ask.
	if most := uint64(2 * 3 * (maxKeepAlives*seconds + n)); packets == 0 || packets > most {
		t.Errorf("%d packets in %d idle seconds, want at most %d", packets, seconds, most)
	}
	for _, e := range f.eng {
		if s := e.Stats(); s.Connections != n || s.Lost != 0 {
			t.Errorf("%d connections, %d lost", s.Connections, s.Lost)
		}
	}
	f.link[1].mangle = func([]byte) bool { return false } // and still notices that its peer is gone
	f.pass(n*time.Second/maxKeepAlives + (maxPings+1)*pingInterval + time.Second)
	if s := f.eng[0].Stats(); s.Lost != n {
		t.Errorf("%d of %d dead connections were noticed", s.Lost, n)
	}
}
