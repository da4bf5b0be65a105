package datapath

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
)

// held reports whether a socket has messages, received or not.
func held(s *udp.Socket) bool { return udp.Readable(s.FD()) }

// sleeps waits until a goroutine sleeps in w, whose sleeper is s.
func sleeps(t *testing.T, s *sleep.Sleeper, w provider.Waiter, until clock.Time) (done <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		w.Wait(until, false)
		close(ended)
	}()
	for waits := false; !waits; runtime.Gosched() {
		select {
		case <-ended:
			t.Fatal("no goroutine sleeps")
		default:
		}
		waits = s.Asleep()
	}
	return ended
}

// ends waits until a sleep has ended.
func ends(t *testing.T, why string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: still asleep", why)
	}
}

// A goroutine sleeps although packets are kept in the socket of the bulk path, and wakes for the next packet. Before a long sleep
// the kept packets are released to the kernel.
func TestSleepBesideKeptPackets(t *testing.T) {
	_, a, b := newBulkPair(t)
	path, _ := a.BulkPath(b.device.bulk.local)
	const runs, n, size = 3, 30, 1400
	arrive := func() {
		t.Helper()
		if got := b.bulkArrivals(t, n, func(*provider.RxPacket) {}); got != n {
			t.Fatalf("%d packets arrived, want %d", got, n)
		}
	}
	for range runs {
		a.Transmit(a.bulkPackets(t, path, n, size))
		arrive()
	}
	socket := b.device.bulk.socket
	if !held(socket) {
		t.Fatal("no packet is kept in the socket")
	}
	done := sleeps(t, b.Sleeper, b, clock.Machine().Add(longSleep/2))
	a.Transmit(a.bulkPackets(t, path, n, size))
	ends(t, "a packet came", done)
	arrive()
	done = sleeps(t, b.Sleeper, b, clock.Machine().Add(patience))
	if held(socket) {
		t.Error("packets stay in the socket while nothing is under way")
	}
	b.Wake()
	ends(t, "woken", done)
}

// A goroutine sleeps although packets are kept in its plain socket, and wakes for the next packet.
func TestSleepBesideKeptPacketsOfPlainSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: CAP_NET_ADMIN for a receive buffer beyond net.core.rmem_max, otherwise no packet is kept")
	}
	a, b := newUDPPair(t)
	path, err := a.Connect(a.endpoint(portA), b.local)
	if err != nil {
		t.Fatal("no path")
	}
	arrive := func() {
		t.Helper()
		var tx [1]provider.TxPacket
		var rx [4]provider.RxPacket
		a.packet(t, &tx[0], path, 60000)
		a.Transmit(tx[:])
		if got := b.Receive(rx[:]); got != 1 {
			t.Fatalf("%d packets arrived, want 1", got)
		}
		b.Recycle([]uint64{rx[0].Frags[0].ID})
	}
	for range 3 {
		arrive()
	}
	if !held(b.in) {
		t.Fatal("no packet is kept in the socket")
	}
	done := sleeps(t, b.Sleeper, b, clock.Machine().Add(patience))
	if held(b.in) {
		t.Error("packets stay in the socket while nothing is under way")
	}
	b.Wake()
	ends(t, "woken", done)
}

// Packets are kept in the socket if processors write them. If a device writes them, they are not kept, because they would occupy
// its memory.
func TestWherePacketsStay(t *testing.T) {
	for _, c := range []struct {
		driver   string
		loopback bool
		want     bool
	}{{"veth", false, true}, {"", true, true}, {"", false, false}, {"virtio_net", false, false}, {"mlx5_core", false, false}} {
		if got := keeps(c.driver, c.loopback); got > 0 != c.want {
			t.Errorf("driver %q, loopback %t: %d bytes stay", c.driver, c.loopback, got)
		}
	}
}
