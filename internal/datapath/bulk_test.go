package datapath

import (
	"bytes"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// newBulkPair opens both sides of a veth pair with offloads, each with a bulk path.
func newBulkPair(t *testing.T) (pair *netlab.Pair, a, b *queue) {
	t.Helper()
	return newBulkPairOn(t, plan.Generic)
}

// newBulkPairOn is newBulkPair for a datapath.
func newBulkPairOn(t *testing.T, on plan.Datapath) (pair *netlab.Pair, a, b *queue) {
	t.Helper()
	pair = netlabtest.Pair(t, netlab.PairConfig{Offloads: true, StaticNeighbours: true})
	open := func(ns *netlab.Namespace, addr netip.Addr) *queue {
		var d Device
		must(t, ns.Do(func() (err error) {
			d, err = Open(plan.Config{Address: addr, Datapath: on, Bulk: plan.BulkOnly})
			return err
		}))
		t.Cleanup(func() { must(t, d.Close()) })
		if i := d.Info(); i.BulkPort == 0 {
			t.Fatal(i.NoBulk)
		}
		return d.(*xdpDevice).queues[0]
	}
	return pair, open(pair.A, pair.AddrA.Addr()), open(pair.B, pair.AddrB.Addr())
}

// bulkPackets makes n packets of size bytes for a bulk path.
func (q *queue) bulkPackets(t *testing.T, path provider.Path, n, size int) []provider.TxPacket {
	t.Helper()
	pkts := make([]provider.TxPacket, n)
	for i := range pkts {
		p := &pkts[i]
		p.Path, p.Bulk, p.Joins, p.N, p.Len = path, true, true, 1, size
		if q.Frames(p.Frags[:1]) != 1 {
			t.Fatal("no frame")
		}
		f := &p.Frags[0]
		f.Data = f.Data[provider.Headroom:][:size]
		for j := range f.Data {
			f.Data[j] = byte(i + j)
		}
	}
	return pkts
}

// bulkArrivals receives until n packets arrived on the bulk path, or no more arrive. It calls each for a packet and then recycles
// it.
func (q *queue) bulkArrivals(t *testing.T, n int, each func(p *provider.RxPacket)) (got int) {
	t.Helper()
	var rx [64]provider.RxPacket
	for end := time.Now().Add(patience); got < n && time.Now().Before(end); {
		k := q.Receive(rx[:])
		for i := range k {
			if !rx[i].Bulk {
				t.Fatal("a packet came by AF_XDP")
			}
			each(&rx[i])
			q.Recycle([]uint64{rx[i].Frags[0].ID})
		}
		got += k
	}
	return got
}

// Packets leave by the bulk path in GSO batches, from frames of AF_XDP. The packets arrive merged and intact, from the port of one
// bulk path at the port of the other (PROTOCOL §11.1).
func TestBulkLane(t *testing.T) {
	_, a, b := newBulkPair(t)
	if b.bulkIn.receiver != nil || a.bulkOut.sender != nil {
		t.Error("an unused bulk path has memory")
	}
	path, ok := a.BulkPath(b.device.bulk.local)
	if !ok {
		t.Fatal("no path")
	}
	const n, size = 30, 1400
	free := a.freeFrames()
	pkts := a.bulkPackets(t, path, n, size)
	want := append([]byte{}, pkts[7].Frags[0].Data...)
	a.Transmit(pkts)
	i, merged := 0, 0
	got := b.bulkArrivals(t, n, func(p *provider.RxPacket) {
		if p.From != a.device.bulk.local || p.To != b.device.bulk.local || p.Len != size || p.N != 1 {
			t.Errorf("packet %d: %d bytes from %v to %v", i, p.Len, p.From, p.To)
		}
		if i == 7 && !bytes.Equal(p.Frags[0].Data, want) {
			t.Error("the bytes are not those that were sent")
		}
		if p.Merged {
			merged++
		}
		i++
	})
	s, err := a.device.Stats()
	must(t, err)
	if got != n || merged != n || s.InRuns != n || s.Lost != 0 {
		t.Errorf("%d packets arrived, %d merged; %d left in runs, %d lost", got, merged, s.InRuns, s.Lost)
	}
	if back := a.freeFrames(); back != free {
		t.Errorf("%d of %d transmit frames are free afterwards", back, free)
	}
	if b.bulkIn.pool.Free() < receiveFrames-udpBatch {
		t.Errorf("%d of %d receive frames are free afterwards", b.bulkIn.pool.Free(), receiveFrames)
	}
	a.ForgetBulk(path)
	if again, _ := a.BulkPath(b.device.bulk.local); again != path {
		t.Errorf("a forgotten path is not used again: %d, %d", path, again)
	}
}

// freeFrames allocates all transmit frames, releases them and returns their number.
func (q *queue) freeFrames() (n int) {
	var all []uint64
	for {
		addr, ok := q.sock.AllocTx()
		if !ok {
			break
		}
		all = append(all, addr)
	}
	for _, addr := range all {
		q.sock.FreeTx(addr)
	}
	return len(all)
}

// One batch may have packets for the ND port and for the bulk path. Packets by AF_XDP have no arrival time, also if their slot of
// the batch had a packet of the bulk path before.
func TestLanesInOneBatch(t *testing.T) {
	pair, a, b := newBulkPair(t)
	must(t, pair.A.Do(func() error { return a.device.Resolve(t.Context(), pair.AddrB.Addr()) }))
	path, ok := a.BulkPath(b.device.bulk.local)
	main, err := a.Connect(wire.EndpointFrom(netip.AddrPortFrom(pair.AddrA.Addr(), 50000)), wire.EndpointFrom(netip.AddrPortFrom(pair.AddrB.Addr(), wire.DefaultPort)))
	if !ok || err != nil {
		t.Fatal("no paths")
	}
	pkts := a.bulkPackets(t, path, 20, 1000)
	for i := range pkts {
		if i%2 == 1 {
			pkts[i].Bulk, pkts[i].Joins, pkts[i].Path = false, false, main
		}
	}
	a.Transmit(pkts)
	var rx [64]provider.RxPacket
	for i := range rx {
		rx[i] = provider.RxPacket{Bulk: true, Merged: true, Arrived: 1}
	}
	var count [2]int
	for end := time.Now().Add(patience); count[0]+count[1] < 20 && time.Now().Before(end); {
		for i := range b.Receive(rx[:]) {
			if rx[i].Bulk {
				count[1]++
			} else {
				count[0]++
			}
			if at := rx[i].Arrived; rx[i].Bulk != (at > 1) || !rx[i].Bulk && (at != 0 || rx[i].Merged) {
				t.Errorf("on the bulk path %t, merged %t: stamp %d", rx[i].Bulk, rx[i].Merged, at)
			}
			b.Recycle([]uint64{rx[i].Frags[0].ID})
		}
	}
	if count != [2]int{10, 10} {
		t.Errorf("%v packets arrived on the bulk paths", count)
	}
}

// A datagram to the bulk port that is too short for a packet is counted, whatever its source. Longer ones go to the engine.
func TestAttackBulkPort(t *testing.T) {
	pair, _, b := newBulkPair(t)
	var from *net.UDPConn
	must(t, pair.A.Do(func() (err error) {
		from, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(pair.AddrB.Addr(), b.device.bulk.local.Port)))
		return err
	}))
	defer func() { must(t, from.Close()) }()
	for _, n := range []int{0, 1, wire.BaseHeaderLen - 1, wire.BaseHeaderLen, 1400} {
		if _, err := from.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	var lengths []int
	b.bulkArrivals(t, 2, func(p *provider.RxPacket) { lengths = append(lengths, p.Len) })
	if s, err := b.device.Stats(); err != nil || len(lengths) != 2 || lengths[0] != wire.BaseHeaderLen || lengths[1] != 1400 || s.Foreign != 3 {
		t.Errorf("%d arrived, %d are foreign (%v)", lengths, s.Foreign, err)
	}
}

// A packet on the bulk path ends a sleep.
func TestBulkWakesSleepers(t *testing.T) {
	_, a, b := newBulkPair(t)
	path, _ := a.BulkPath(b.device.bulk.local)
	for _, spin := range []bool{false, true, false} {
		done := make(chan struct{})
		go func() {
			b.Wait(clock.Machine().Add(patience), spin)
			close(done)
		}()
		a.Transmit(a.bulkPackets(t, path, 1, 100))
		select {
		case <-done:
		case <-time.After(patience / 2):
			t.Fatal("no sleeper woke")
		}
		if !b.Ready() || b.bulkArrivals(t, 1, func(*provider.RxPacket) {}) != 1 {
			t.Fatal("the first poll after a wake-up finds nothing")
		}
	}
}

// A bulk path without packets is polled rarely. While packets arrive, it is polled as often as the ring.
func TestBulkLooks(t *testing.T) {
	_, a, b := newBulkPair(t)
	path, _ := a.BulkPath(b.device.bulk.local)
	r := b.bulkIn
	for range 20 * mostSkipped {
		r.ready()
	}
	if r.skip == 0 && r.quiet < mostSkipped {
		t.Errorf("the bulk path is polled every time: %d polls since the last packet", r.quiet)
	}
	a.Transmit(a.bulkPackets(t, path, 1, 100))
	looks := 0
	for end := time.Now().Add(patience); !r.ready(); looks++ {
		if time.Now().After(end) {
			t.Fatal("never found")
		}
	}
	if b.bulkArrivals(t, 1, func(*provider.RxPacket) {}); !r.hot() {
		t.Error("it is not expecting more")
	}
	for range 7 {
		if r.ready(); r.skip != 0 {
			t.Error("a poll is skipped right after a packet")
		}
	}
}

// By default an adapter has a bulk path if its interface segments UDP. A bulk path that is turned off does not exist.
func TestWhereABulkLaneIs(t *testing.T) {
	for _, c := range []struct {
		offloads bool
		bulk     plan.Bulk
		want     bool
		why      string
	}{
		{true, plan.BulkAuto, true, ""},
		{false, plan.BulkAuto, false, "tx-udp-segmentation"},
		{true, plan.BulkOff, false, "turned off"},
		{false, plan.BulkOnly, true, ""},
	} {
		pair := netlabtest.Pair(t, netlab.PairConfig{Offloads: c.offloads})
		var d Device
		must(t, pair.A.Do(func() (err error) {
			d, err = Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: plan.Generic, Bulk: c.bulk})
			return err
		}))
		if i := d.Info(); (i.BulkPort != 0) != c.want || !strings.Contains(i.NoBulk, c.why) || (i.NoBulk == "") != c.want || d.(*xdpDevice).queues[0].BulkOpen() != c.want {
			t.Errorf("offloads %v, %v: port %d, %q", c.offloads, c.bulk, i.BulkPort, i.NoBulk)
		}
		must(t, d.Close())
	}
}

// If the interface supports UDP segmentation and it is off, the remedy in the reason enables the bulk path, with and without
// checksum offload. If the interface does not support it, no remedy is given.
func TestBulkLaneIsTurnedOn(t *testing.T) {
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("ethtool is missing: apt-get install ethtool")
	}
	for _, offloads := range []bool{false, true} {
		pair := netlabtest.Pair(t, netlab.PairConfig{Offloads: offloads})
		shell := func(command string) {
			t.Helper()
			var said bytes.Buffer
			cmd := exec.Command("sh", "-c", command)
			cmd.Stdout, cmd.Stderr = &said, &said
			must(t, pair.A.StartProcess(cmd))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, &said)
			}
		}
		why := func() string {
			t.Helper()
			var d Device
			must(t, pair.A.Do(func() (err error) {
				d, err = Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: plan.Generic})
				return err
			}))
			must(t, d.Close())
			return d.Info().NoBulk
		}
		if offloads {
			shell("ethtool -K nd0 tx-udp-segmentation off")
		}
		said := why()
		_, command, _ := strings.Cut(said, "turn it on (")
		command, _, ok := strings.Cut(command, ")")
		if !ok {
			t.Fatalf("offloads %t: no remedy in %q", offloads, said)
		}
		if shell(command); why() != "" {
			t.Errorf("offloads %t: %s did not help: %q", offloads, command, why())
		}
	}
}

// A long packet arrives whole. If the interface does not segment UDP any more, the kernel splits it before it leaves, and its segments
// arrive as packets.
func TestLongPacketByTheLane(t *testing.T) {
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("ethtool is missing: apt-get install ethtool")
	}
	pair, a, b := newBulkPairOn(t, plan.TCX)
	if !a.device.info.Long {
		t.Error("on veth there are no long packets")
	}
	path, ok := a.BulkPath(b.device.bulk.local)
	if !ok {
		t.Fatal("no path")
	}
	const n, size, segment = 15, 4000, 1400
	send := func() (want []byte) {
		p := &provider.TxPacket{Path: path, Bulk: true, N: n, Segment: segment}
		if a.Frames(p.Frags[:n]) != n {
			t.Fatal("no frames")
		}
		for i := range n {
			f := &p.Frags[i]
			f.Data = f.Data[:size]
			for j := range f.Data {
				f.Data[j] = byte(i + j*7)
			}
			if i == 0 {
				wire.PutBaseHeader(f.Data, &wire.BaseFields{Operations: true, Flags: wire.FlagLong})
			}
			p.Len += size
			want = append(want, f.Data...)
		}
		a.Transmit([]provider.TxPacket{*p})
		return want
	}
	want := send()
	got := b.bulkArrivals(t, 1, func(p *provider.RxPacket) {
		if p.N != 1 || p.Len != n*size || !p.Merged || !bytes.Equal(p.Frags[0].Data, want) {
			t.Errorf("a packet of %d bytes, merged %v", p.Len, p.Merged)
		}
	})
	if got != 1 {
		t.Fatalf("%d packets arrived", got)
	}
	cmd := exec.Command("ethtool", "-K", "nd0", "tx-udp-segmentation", "off")
	must(t, pair.A.StartProcess(cmd))
	must(t, cmd.Wait())
	want, at := send(), 0
	b.bulkArrivals(t, (n*size+segment-1)/segment, func(p *provider.RxPacket) {
		if p.Len > segment || !bytes.Equal(p.Frags[0].Data, want[at:][:p.Len]) {
			t.Errorf("at %d a packet of %d bytes", at, p.Len)
		}
		at += p.Len
	})
	if at != len(want) {
		t.Errorf("%d of %d bytes arrived", at, len(want))
	}
}
