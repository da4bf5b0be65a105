package ndnet

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"
)

// idleBytes is the limit for the memory of one side of an idle connection. A third each belongs to the control block with the Conn,
// to the queues, and to the engine's state.
const idleBytes = 8 << 10

// An idle connection uses little memory: its heap objects, its control block, and blocks of the pool.
func TestMemoryOfAnIdleConnection(t *testing.T) {
	n := networks(t, Config{})
	used := func() uint64 {
		var m runtime.MemStats
		for range 2 { // the second collection frees the contents of finalizers and pools
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const conns = 300
	// The adapters have shared memory, some of it only after data have moved. Twice as many connections leave their tables no reason to grow
	// below, although some of them end before others begin.
	for _, e := range pairs(t, n, 2*conns) {
		must(t, errors.Join(e[0].Close(), e[1].Close()))
	}
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
	before := used()
	ends := pairs(t, n, conns)
	each := int64(0)
	tick := time.NewTicker(50 * time.Millisecond) // a second after the last byte a connection releases its traffic state
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		each = (int64(used())-int64(before))/(2*conns) + controlBytes
		if each <= idleBytes || time.Now().After(deadline) {
			break
		}
	}
	runtime.KeepAlive(ends)
	t.Logf("%d bytes for each end", each)
	if each > idleBytes {
		t.Errorf("an idle end has %d bytes, want at most %d", each, idleBytes)
	}
	for _, e := range ends {
		must(t, errors.Join(e[0].Close(), e[1].Close()))
	}
}

// A round trip allocates nothing.
func TestRoundTripAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("needs a build without the race detector, under which sync.Pool drops objects at random")
	}
	client, server := newPipe(t, Config{})
	go func() { _, _ = io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{server}) }()
	for size, most := range map[int]float64{64: 1, 4000: 1, 100 << 10: 4} { // a message makes no allocation, nor does a waiter in the queue
		p := make([]byte, size)
		trip := func() {
			_, err := client.Write(p)
			must(t, err)
			_, err = io.ReadFull(client, p)
			must(t, err)
		}
		for range 50 {
			trip()
		}
		if n := testing.AllocsPerRun(100, trip); n > most {
			t.Errorf("%d bytes: %v allocations in a round trip", size, n)
		}
	}
}

// The bytes of one Write leave in one packet, also if they need two messages or wrap around in the send ring.
func TestOneWriteIsOnePacket(t *testing.T) {
	n := networks(t, Config{})
	ends := pairs(t, n, 1)
	client, server := ends[0][0], ends[0][1]
	const exchanges, size = 200, inlineMax + 100
	trip := func() {
		for _, way := range [][2]*Conn{{client, server}, {server, client}} {
			_, err := way[0].Write(make([]byte, size))
			must(t, err)
			_, err = io.ReadFull(way[1], make([]byte, size))
			must(t, err)
		}
	}
	trip()
	packets := func() uint64 {
		s := n[1].adapter.Stats()
		return s.Packets.Out - s.Packets.Acks
	}
	before := packets()
	for range exchanges {
		trip()
	}
	if got := packets() - before; got > exchanges*5/4 { // sometimes the engine polls between two messages
		t.Errorf("%d packets for %d Writes", got, exchanges)
	}
}
