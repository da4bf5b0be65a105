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

// held says that a socket has messages, received or not.
func held(s *udp.Socket) bool { return udp.Readable(s.FD()) }

// sleeps waits until somebody sleeps in w, which s is the sleeper of.
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
			t.Fatal("nobody sleeps")
		default:
		}
		waits = s.Asleep()
	}
	return ended
}

// ends waits until a sleep is over.
func ends(t *testing.T, why string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: still asleep", why)
	}
}

// Who sleeps does so although packets stay in the socket, wakes for the next one, and gives them back to the kernel before a long sleep: by the bulk lane ...
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
		t.Fatal("nothing stays in the socket")
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

// ... and over plain sockets.
func TestSleepBesideKeptPacketsOfPlainSockets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: CAP_NET_ADMIN for a receive buffer beyond net.core.rmem_max, else nothing stays")
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
		t.Fatal("nothing stays in the socket")
	}
	done := sleeps(t, b.Sleeper, b, clock.Machine().Add(patience))
	if held(b.in) {
		t.Error("packets stay in the socket while nothing is under way")
	}
	b.Wake()
	ends(t, "woken", done)
}

// Packets stay where processors write them, and not where a device does: there they would keep its memory from it.
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
