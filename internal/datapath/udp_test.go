package datapath

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

var must = testhelp.Must

// patience is how long a test waits for an event.
const patience = time.Minute

// loopback is two addresses that no other test process uses.
var loopback = netlabtest.Loopback()

// Source ports of the tests. The kernel does not give them to sockets without a chosen port (ip_local_port_range).
const (
	portA = 15001
	portB = 15002
)

// newUDPPair is two devices on loopback with a port that no other program uses.
func newUDPPair(t testing.TB) (a, b *socketDevice) {
	t.Helper()
	port := netlabtest.FreePort(t)
	var d [2]*socketDevice
	for i := range d {
		opened, err := Open(plan.Config{Address: loopback[i], UDPPort: port, Datapath: plan.UDP})
		must(t, err)
		t.Cleanup(func() { must(t, opened.Close()) })
		d[i] = opened.(*socketDevice)
	}
	return d[0], d[1]
}

// packet builds an ND packet of n bytes as the engine does: behind the headroom, in as many frames as necessary.
func (d *socketDevice) packet(t testing.TB, p *provider.TxPacket, path provider.Path, n int) {
	t.Helper()
	*p = provider.TxPacket{Path: path, Len: n}
	for start := provider.Headroom; n > 0; start = 0 {
		if d.Frames(p.Frags[p.N:p.N+1]) != 1 {
			t.Fatal("no frames")
		}
		f := &p.Frags[p.N]
		f.Data = f.Data[start:min(start+n, len(f.Data))]
		for i := range f.Data {
			f.Data[i] = byte(n - i)
		}
		n -= len(f.Data)
		p.N++
	}
}

// endpoint returns a device's endpoint with a source port.
func (d *socketDevice) endpoint(port uint16) wire.Endpoint {
	return wire.Endpoint{IP: d.local.IP, Port: port}
}

// TestUDPPackets sends packets of many sizes from the smallest to the largest, and answers them.
func TestUDPPackets(t *testing.T) {
	a, b := newUDPPair(t)
	path, err := a.Connect(a.endpoint(portA), b.local)
	if err != nil {
		t.Fatal("no path")
	}
	var rx [64]provider.RxPacket
	for _, n := range []int{wire.BaseHeaderLen, 100, provider.FrameSize - provider.Headroom, provider.FrameSize, 9000, a.MaxPacket()} {
		var tx [1]provider.TxPacket
		a.packet(t, &tx[0], path, n)
		var sent []byte
		for i := range tx[0].N {
			sent = append(sent, tx[0].Frags[i].Data...)
		}
		a.Transmit(tx[:])
		if !b.Ready() || b.Receive(rx[:]) != 1 {
			t.Fatalf("%d bytes did not arrive", n)
		}
		p := &rx[0]
		var got []byte
		for i := range p.N {
			got = append(got, p.Frags[i].Data...)
		}
		if p.From != a.endpoint(portA) || p.To != b.local || p.Len != n || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes: got %d in %d pieces from %v to %v", n, p.Len, p.N, p.From, p.To)
		}
		back, ok := b.Reply(p, portB, a.local.Port)
		if !ok {
			t.Fatal("no way back")
		}
		recycle(b, p)
		b.packet(t, &tx[0], back, 64)
		b.Transmit(tx[:])
		b.Forget(back)
		if a.Receive(rx[:]) != 1 || rx[0].From != b.endpoint(portB) || rx[0].Len != 64 {
			t.Fatalf("the answer: %+v", rx[0])
		}
		recycle(a, &rx[0])
	}
	if a.txPool.Free() != sendFrames || b.txPool.Free() != sendFrames {
		t.Errorf("transmit frames are missing: %d and %d of %d", a.txPool.Free(), b.txPool.Free(), sendFrames)
	}
	a.Forget(path)
	if len(a.sources.opened) != 0 {
		t.Errorf("unused sources: %v", a.sources.opened)
	}
}

// TestUDPForeign receives datagrams that cannot be ND packets.
func TestUDPForeign(t *testing.T) {
	a, b := newUDPPair(t)
	a.probeNeighbour(loopback[1])
	var rx [64]provider.RxPacket
	if b.Receive(rx[:]) != 0 {
		t.Error("an empty datagram passes for a packet")
	}
	if s, err := b.Stats(); err != nil || s.Foreign != 1 {
		t.Errorf("stats %+v (%v), want one foreign packet", s, err)
	}
}

// TestUDPSourcePorts: paths share sockets, the last path closes its socket, and a path fails if another program has the port.
func TestUDPSourcePorts(t *testing.T) {
	a, b := newUDPPair(t)
	connect := func(port uint16) provider.Path {
		t.Helper()
		p, err := a.Connect(a.endpoint(port), b.local)
		if err != nil {
			t.Fatalf("no path from port %d", port)
		}
		return p
	}
	free := func() bool {
		s, err := a.network.Open(udp.Config{Local: netip.AddrPortFrom(loopback[0], portA)})
		if err != nil {
			return false
		}
		must(t, s.Close())
		return true
	}
	first, second := connect(portA), connect(portA)
	if first == second || a.paths[first].from != a.paths[second].from {
		t.Error("two paths from one port do not share its socket")
	}
	a.Forget(first)
	a.Forget(first) // harmless
	if free() {
		t.Error("the socket went with the first path")
	}
	a.Forget(second)
	if !free() {
		t.Error("the socket outlived the last path")
	}
	if third := connect(portA); third != second {
		t.Errorf("path %d instead of %d again", third, second)
	}
	own := connect(a.cfg.UDPPort)
	if a.paths[own].from.socket != a.in {
		t.Error("the ND port as a source port has a socket of its own")
	}
	a.Forget(own)

	other, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback[0], portB)))
	must(t, err)
	defer other.Close()
	if _, err := a.Connect(a.endpoint(portB), b.local); err == nil {
		t.Error("a path from a port that another socket has")
	}
	if s, err := a.Stats(); err != nil || s.PortTaken != 1 {
		t.Errorf("stats %+v (%v), want one taken port", s, err)
	}
}

// A path that is released after its device was closed closes nothing: its descriptor's number may belong to another file by then.
func TestPathOutlivesItsDevice(t *testing.T) {
	a, b := newUDPPair(t)
	p, err := a.Connect(a.endpoint(portA), b.local)
	must(t, err)
	fd := a.paths[p].from.socket.FD()
	must(t, a.Close())
	file, err := os.Open(os.DevNull)
	must(t, err)
	defer file.Close()
	if int(file.Fd()) != fd {
		must(t, unix.Dup3(int(file.Fd()), fd, unix.O_CLOEXEC))
	}
	a.Forget(p)
	if err := unix.Close(fd); err != nil {
		t.Errorf("the path closed a descriptor that is not its own: %v", err)
	}
}

// TestUDPAddresses: an address that is not local is refused, and so is a well-known port that another program uses.
func TestUDPAddresses(t *testing.T) {
	other, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback[0], 0)))
	must(t, err)
	defer other.Close()
	var unknown *host.AddressError
	if _, err := Open(plan.Config{Address: netip.MustParseAddr("203.0.113.1"), Datapath: plan.UDP}); !errors.As(err, &unknown) {
		t.Errorf("foreign address: %v", err)
	}
	if _, err := Open(plan.Config{Address: loopback[0], UDPPort: other.LocalAddr().(*net.UDPAddr).AddrPort().Port(), Datapath: plan.UDP}); !errors.Is(err, udp.ErrPortTaken) {
		t.Errorf("port in use: %v", err)
	}
}

// TestUDPWait sleeps until a packet arrives, and until another goroutine wakes it.
func TestUDPWait(t *testing.T) {
	a, b := newUDPPair(t)
	slept := make(chan struct{})
	wait := func() { b.Wait(-1, true); slept <- struct{}{} }
	go wait()
	a.probeNeighbour(loopback[1])
	for range 2 {
		select {
		case <-slept:
		case <-time.After(time.Minute):
			t.Fatal("still asleep")
		}
		var rx [64]provider.RxPacket
		b.Receive(rx[:])
		if b.Ready() {
			t.Fatal("the packet is still there")
		}
		go wait()
		b.Wake()
	}
	<-slept
}

// TestUDPAllocations: sending, receiving, an empty poll, and a foreign datagram allocate nothing.
func TestUDPAllocations(t *testing.T) {
	a, b := newUDPPair(t)
	path, _ := a.Connect(a.endpoint(portA), b.local)
	var tx [8]provider.TxPacket
	var rx [64]provider.RxPacket
	ids := make([]uint64, 0, 8*provider.MaxFrags)
	for name, n := range map[string]int{"packets": 5000, "foreign": 10} {
		if got := testing.AllocsPerRun(100, func() {
			for i := range tx {
				a.packet(t, &tx[i], path, n)
			}
			a.Transmit(tx[:])
			ids = ids[:0]
			for i := range b.Receive(rx[:]) {
				for j := range rx[i].N {
					ids = append(ids, rx[i].Frags[j].ID)
				}
			}
			b.Recycle(ids)
			b.Ready()
		}); got != 0 {
			t.Errorf("%s: %v allocations for a batch, want 0", name, got)
		}
	}
}

// TestUDPPressure: a receive buffer that fills up is reported, and one that was emptied is not.
func TestUDPPressure(t *testing.T) {
	a, b := newUDPPair(t)
	path, _ := a.Connect(a.endpoint(portA), b.local)
	var rx [64]provider.RxPacket
	drain := func(packets int) {
		for got := 0; got < packets; {
			n := b.Receive(rx[:min(len(rx), packets-got)])
			if n == 0 {
				break
			}
			for i := range n {
				recycle(b, &rx[i])
			}
			got += n
		}
	}
	if p := b.Pressure(); p != 0 {
		t.Errorf("pressure %d before anything came", p)
	}
	var tx [1]provider.TxPacket
	for range 4096 { // until the buffer is full and beyond
		a.packet(t, &tx[0], path, 5000)
		a.Transmit(tx[:])
	}
	drain(udpBatch)
	if p := b.Pressure(); p < 128 {
		t.Errorf("pressure %d of 255 while the buffer is nearly full", p)
	}
	drain(4096)
	if p := b.Pressure(); p != 0 {
		t.Errorf("pressure %d after everything was taken", p)
	}
}

// Packets behind gaps may have used much memory. After a long sleep with nothing in flight the first batch releases that memory.
// After a short sleep it does not.
func TestPlainSocketsGiveMemoryBack(t *testing.T) {
	a, _ := newUDPPair(t)
	for _, c := range []struct {
		sleep time.Duration
		trims bool
	}{{2 * longSleep, true}, {longSleep, false}, {time.Duration(clock.Never), true}} {
		a.Wake()
		a.Wait(clock.Machine().Add(c.sleep), false)
		if got := a.trim.Load(); got != c.trims {
			t.Errorf("after a sleep of %v: %v", c.sleep, got)
		}
		a.Receive(make([]provider.RxPacket, 1))
		if a.trim.Load() {
			t.Errorf("after a sleep of %v the next batch gives nothing back", c.sleep)
		}
	}
}
