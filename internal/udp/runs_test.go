package udp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// openRuns binds a socket that sends GSO batches and receives merged datagrams.
func openRuns(t testing.TB, n *Network, at netip.Addr) (*Socket, netip.AddrPort) {
	t.Helper()
	if err := n.Runs(); err != nil {
		t.Skip(err)
	}
	s, err := n.Open(Config{Local: netip.AddrPortFrom(at, 0), ReceiveBuffer: 4 << 20, SendBuffer: 4 << 20, Runs: true})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, portOf(t, s, at)
}

// sized is a unique datagram of n bytes.
func sized(i, n int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(n), byte(n >> 8), 7}, n/4+1)[:n]
}

// gatherRuns begins datagrams of these lengths, each in two parts, that may share GSO batches.
func gatherRuns(s *Sender, to *Addr, lengths []int) (want [][]byte) {
	for i, n := range lengths {
		data := sized(i, n)
		s.Begin(to, false, n, true)
		s.Add(data[:(n+1)/2])
		if n > 1 {
			s.Add(data[(n+1)/2:])
		}
		want = append(want, data)
	}
	return want
}

func repeat(n, length int) []int { return slices.Repeat([]int{length}, n) }

// Datagrams of equal length share a GSO batch. A shorter one ends the batch, and a longer one begins another. Neither the number of
// segments nor the total length exceeds the kernel's limits. The datagrams arrive unchanged, merged or not.
func TestRuns(t *testing.T) {
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		for _, c := range []struct {
			name    string
			lengths []int
			runs    []int
		}{
			{"one", []int{100}, []int{1}},
			{"equal", repeat(32, 1432), []int{32}},
			{"shorter tail", append(repeat(5, 1000), 1), []int{6}},
			{"behind the tail", append(repeat(2, 1000), 999, 999, 999), []int{3, 2}},
			{"longer", []int{500, 500, 501, 501}, []int{2, 2}},
			{"short first", []int{10, 500, 500}, []int{1, 2}},
			{"all different", []int{5, 4, 6, 3}, []int{2, 2}},
			{"segments", repeat(maxSegments+3, 100), []int{maxSegments, 3}},
			{"bytes", repeat(10, 9000), []int{7, 3}},
		} {
			n := newNetwork(t)
			out, _ := openRuns(t, n, at)
			in, addr := openRuns(t, n, at)
			plain, plainAddr := open(t, n, at)
			s, to := NewSender(80, 2), AddrOf(addr, 0)
			want := gatherRuns(s, &to, c.lengths)
			var runs []int
			inRuns := uint64(0)
			for i := range s.nr {
				runs = append(runs, s.runs[i].n)
				if s.runs[i].n > 1 {
					inRuns += uint64(s.runs[i].n)
				}
			}
			if !slices.Equal(runs, c.runs) {
				t.Errorf("%s: runs %v, want %v", c.name, runs, c.runs)
			}
			if refused, _ := s.Send(out); refused != 0 || to.alone.newest != 0 || s.InRuns() != inRuns {
				t.Fatalf("%v, %s: %d refused, %v, want %d in runs", at, c.name, refused, to.alone, inRuns)
			}
			r := newReceiver(t, 64, 128)
			got := r.all(in)
			for more := r.all(in); len(more) > 0; more = r.all(in) {
				got = append(got, more...)
			}
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%v, %s: %d datagrams, want %d as they were sent", at, c.name, len(got), len(want))
			}
			// A socket without merging receives each datagram on its own.
			to = AddrOf(plainAddr, 0)
			gatherRuns(s, &to, c.lengths)
			s.Send(out)
			total := 0
			for n := r.count(plain); n > 0; n = r.count(plain) {
				total += n
			}
			if total != len(want) {
				t.Errorf("%v, %s: %d datagrams at a plain socket, want %d", at, c.name, total, len(want))
			}
			r.Close()
			if r.pool.Free() != 128 {
				t.Errorf("%d frames are free", r.pool.Free())
			}
		}
	}
}

// A batch contains neither datagrams to other destinations nor datagrams that must leave alone.
func TestRunsOfOneDestination(t *testing.T) {
	s := NewSender(16, 1)
	a, b := AddrOf(netip.AddrPortFrom(addrA, 1), 0), AddrOf(netip.AddrPortFrom(addrB, 1), 0)
	for i, c := range []struct {
		to       *Addr
		markable bool
		joins    bool
		runs     int
	}{{&a, false, true, 1}, {&a, false, true, 1}, {&b, false, true, 2}, {&a, false, true, 3}, {&a, true, true, 4}, {&a, true, false, 5}, {&a, true, true, 6}, {&a, true, true, 6}} {
		s.Begin(c.to, c.markable, 10, c.joins)
		if s.nr != c.runs {
			t.Errorf("datagram %d: %d runs, want %d", i, s.nr, c.runs)
		}
	}
}

// If the kernel refuses a GSO batch, its datagrams are sent one by one. The destination gets no batches for a while, and other
// destinations still do. The time doubles up to a limit. In this test the socket has no checksums at first.
func TestRefusedRun(t *testing.T) {
	n := newNetwork(t)
	out, _ := openRuns(t, n, addrA)
	in, addr := openRuns(t, n, addrB)
	checksums := func(off int) { must(t, unix.SetsockoptInt(out.FD(), unix.SOL_SOCKET, unix.SO_NO_CHECK, off)) }
	checksums(1)
	s, to, other, r := NewSender(16, 2), AddrOf(addr, 0), AddrOf(addr, 0), newReceiver(t, 16, 32)
	try := func(to *Addr, inRuns uint64) {
		t.Helper()
		want := gatherRuns(s, to, append(repeat(4, 800), 70, 900))
		if refused, _ := s.Send(out); refused != 0 {
			t.Fatalf("%d refused", refused)
		}
		if got := s.InRuns(); got != inRuns {
			t.Errorf("%d in runs, want %d", got, inRuns)
		}
		if got := r.all(in); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%d datagrams, want %d", len(got), len(want))
		}
	}
	pause := uint32(shortestPause)
	for range 12 {
		try(&to, 0)
		if to.alone != (struct{ left, newest uint32 }{pause, pause}) {
			t.Fatalf("a pause of %+v, want %d", to.alone, pause)
		}
		checksums(0)
		try(&to, 0) // the pause has not ended
		try(&other, 5)
		checksums(1)
		to.alone.left = 0
		pause = min(2*pause, longestPause)
	}
	checksums(0)
	for range 2 {
		try(&to, 5)
	}
	if to.alone.newest != 0 {
		t.Error("a run that left does not end the pauses")
	}
}

// If a firewall refuses a GSO batch, its datagrams are sent one by one, and batches are still used: the firewall may accept the
// next one.
func TestRunThatAFirewallRefuses(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is missing: apt-get install nftables")
	}
	ns := netlabtest.Namespace(t)
	shell := func(line string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		must(t, ns.StartProcess(cmd))
		must(t, cmd.Wait())
	}
	shell("ip link set lo up; nft 'add table inet f; add chain inet f out { type filter hook output priority 0; }; add rule inet f out meta length > 2000 drop'")
	must(t, ns.Do(func() error {
		n := newNetwork(t)
		out, _ := openRuns(t, n, addrA)
		in, addr := openRuns(t, n, addrB)
		s, to, r := NewSender(16, 2), AddrOf(addr, 0), newReceiver(t, 16, 32)
		for _, inRuns := range []uint64{0, 4} {
			want := gatherRuns(s, &to, repeat(4, 800))
			if refused, _ := s.Send(out); refused != 0 || to.alone.newest != 0 || s.InRuns() != inRuns {
				t.Errorf("%d refused, no runs: %v, want %d in runs", refused, to.alone, inRuns)
			}
			if got := r.all(in); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%d datagrams, want %d as they were sent", len(got), len(want))
			}
			shell("nft flush ruleset")
		}
		return nil
	}))
}

// Only an error that means lack of support stops the use of batches.
func TestWhatEndsRuns(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{
		unix.EINVAL: true, unix.EIO: true, unix.EOPNOTSUPP: true,
		unix.EPERM: false, unix.EACCES: false, unix.ENETUNREACH: false, unix.EHOSTUNREACH: false, unix.ENETDOWN: false, unix.ECONNREFUSED: false,
		unix.EMSGSIZE: false, unix.ENODEV: false, unix.EADDRNOTAVAIL: false,
	} {
		if neverInRuns(errno) != want {
			t.Errorf("%v: %v", errno, !want)
		}
	}
}

// Adjacent parts of a batch go to the kernel as one memory range, within a datagram and across datagrams, and never into another
// batch. The datagrams arrive unchanged, also if the batch is refused and sent one by one.
func TestStretches(t *testing.T) {
	for _, refused := range []bool{false, true} {
		n := newNetwork(t)
		out, _ := openRuns(t, n, addrA)
		in, addr := openRuns(t, n, addrB)
		if refused {
			must(t, unix.SetsockoptInt(out.FD(), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
		}
		memory := sized(3, 20_000)
		s, to, r := NewSender(16, 2), AddrOf(addr, 0), newReceiver(t, 16, 32)
		var want [][]byte
		piece := func(from, length int) []byte {
			want = append(want, memory[from:][:length])
			return memory[from:][:length]
		}
		s.Begin(&to, false, 1000, true)
		s.Add(memory[:10])
		s.Add(memory[10:1000])
		want = append(want, memory[:1000])
		for _, at := range []int{1000, 2000, 5000} { // a gap before the last part
			s.Begin(&to, false, 1000, true)
			s.Add(piece(at, 1000))
		}
		s.Begin(&to, false, 1200, true) // another batch, adjacent to the first one
		s.Add(piece(6000, 1200))
		s.Begin(&to, false, 1200, true)
		s.Add(piece(7200, 1200)[:1200:1200])
		s.Begin(&to, false, 1200, true)
		s.Add(piece(8400, 1200)) // not known to be readable together with the part before
		var got []int
		for _, v := range s.stretches[:s.ns] {
			got = append(got, int(v.Len))
		}
		if !slices.Equal(got, []int{3000, 1000, 2400, 1200}) {
			t.Errorf("stretches of %v bytes", got)
		}
		if lost, _ := s.Send(out); lost != 0 || (to.alone.newest != 0) != refused {
			t.Errorf("%d refused, no runs: %v", lost, to.alone)
		}
		if got := r.all(in); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%d datagrams, want %d as they were sent", len(got), len(want))
		}
		if s.ns != 0 || s.stretches[0].Base != nil || s.last != nil {
			t.Error("memory of others is remembered")
		}
	}
}

// A batch of datagrams above the MTU is refused, and says nothing about batches, because its last datagram is short enough.
func TestRunBeyondTheMTU(t *testing.T) {
	n := newNetwork(t)
	out, _ := openRuns(t, n, addrA)
	in, addr := openRuns(t, n, addrB)
	s, to, r := NewSender(16, 1), AddrOf(addr, 0), newReceiver(t, 16, 32)
	for _, size := range []int{65508, 65508, 100} {
		s.Begin(&to, false, size, true)
		s.Add(make([]byte, size))
	}
	s.runs = append(s.runs[:0], run{to: &to, first: 0, n: 3, segment: 65508}) // as if the path MTU had fallen meanwhile
	s.nr = 1
	if refused, tooLong := s.Send(out); refused != 2 || tooLong != 2 || to.alone.newest != 0 {
		t.Errorf("%d refused, %d too long, %v", refused, tooLong, to.alone)
	}
	if got := r.count(in); got != 1 {
		t.Errorf("%d arrived, want the short one", got)
	}
}

// A control message with a false segment size, or a malformed one, cuts only within the message and loses no frame.
func TestLyingSegmentSize(t *testing.T) {
	const n = 1000
	gro := func(size int32) []byte {
		return controlOf(unix.SOL_UDP, unix.UDP_GRO, binary.NativeEndian.AppendUint32(nil, uint32(size)))
	}
	short := controlOf(unix.SOL_UDP, unix.UDP_GRO, []byte{1, 0})
	endless := gro(300)
	binary.NativeEndian.PutUint64(endless, 1<<40)
	empty := gro(300)
	binary.NativeEndian.PutUint64(empty, 0)
	for name, c := range map[string]struct {
		control []byte
		lengths []int
		unfit   uint64
	}{
		"none":      {nil, []int{n}, 0},
		"true":      {gro(300), []int{300, 300, 300, 100}, 0},
		"zero":      {gro(0), []int{n}, 0},
		"negative":  {gro(-300), []int{n}, 0},
		"the whole": {gro(n), []int{n}, 0},
		"more":      {gro(n + 1), []int{n}, 0},
		"largest":   {gro(1<<31 - 1), []int{n}, 0},
		"tiny":      {gro(23), nil, 1},
		"least":     {gro(24), append(repeat(41, 24), 16), 0},
		"cut off":   {gro(300)[:unix.SizeofCmsghdr+2], []int{n}, 0},
		"too short": {short[:unix.CmsgLen(2)], []int{n}, 0},
		"endless":   {endless, []int{n}, 0},
		"empty":     {empty, []int{n}, 0},
		"twice":     {append(gro(300), gro(500)...), []int{500, 500}, 0},
	} {
		r := NewReceiver(newPool(t, 4), 2, frameSize, 24)
		r.post()
		r.arrived, r.stop, r.dirty = 1, 1, 1
		r.msgs[0].n = n
		r.msgs[0].hdr.SetControllen(copy(r.control[:controlRoom], c.control))
		var got []int
		for d := (Datagram{}); r.Next(&d); r.Release(d.Frame) {
			got = append(got, len(d.Data))
			if d.Merged != (len(c.lengths) > 1) {
				t.Errorf("%s: merged: %v", name, d.Merged)
			}
		}
		if !slices.Equal(got, c.lengths) || r.Unfit() != c.unfit {
			t.Errorf("%s: cut into %v, want %v", name, got, c.lengths)
		}
		if r.Close(); r.pool.Free() != 4 {
			t.Errorf("%s: %d of 4 frames are free", name, r.pool.Free())
		}
	}
}

// A frame is free after the last datagram in it, in any order of release. Close releases datagrams that were not fetched.
func TestFramesAreShared(t *testing.T) {
	n := newNetwork(t)
	out, _ := openRuns(t, n, addrA)
	in, addr := openRuns(t, n, addrB)
	s, to := NewSender(16, 2), AddrOf(addr, 0)
	r := newReceiver(t, 1, 2)
	gatherRuns(s, &to, repeat(4, 100))
	s.Send(out)
	if !r.Receive(in) {
		t.Fatal("nothing arrived")
	}
	var d [4]Datagram
	for i := range d {
		if !r.Next(&d[i]) || d[i].Frame != d[0].Frame {
			t.Skip("the loopback interface did not merge")
		}
	}
	for _, i := range []int{2, 0, 3} {
		r.Release(d[i].Frame)
		if r.pool.Free() != 1 {
			t.Fatal("the frame is free while a datagram is in it")
		}
	}
	if !bytes.Equal(d[1].Data, sized(1, 100)) {
		t.Error("the last one lost its bytes")
	}
	if r.Release(d[1].Frame); r.pool.Free() != 2 {
		t.Error("the frame is not free")
	}
	gatherRuns(s, &to, repeat(4, 100))
	s.Send(out)
	r.Receive(in)
	r.Next(&d[0])
	r.Close()
	if r.Release(d[0].Frame); r.pool.Free() != 2 {
		t.Errorf("%d frames are free after Close", r.pool.Free())
	}
}

// If messages are large, few are read in one batch, and more if they are small.
func TestOffered(t *testing.T) {
	r := NewReceiver(newPool(t, 2), 64, 8*frameSize, 1)
	if r.offered != 8 {
		t.Fatalf("%d at first", r.offered)
	}
	batch := func(n, bytes int) int {
		r.arrived = n
		for i := range n {
			r.msgs[i].n = uint32(bytes)
		}
		r.adapt()
		return r.offered
	}
	for i, c := range []struct{ n, bytes, want int }{
		{8, 100, 16},
		{15, 100, 16},
		{16, 100, 32},
		{32, 100, 64},
		{64, 100, 64}, // more while all of them are used
		{64, 65000, 32},
		{32, 65000, 16},
		{16, 65000, 8},
		{8, 65000, 8},
		{8, 65536, 8},
		{1, 8*frameSize + 1, 4},
		{1, 1, 4},
	} {
		if got := batch(c.n, c.bytes); got != c.want {
			t.Errorf("step %d: %d, want %d", i, got, c.want)
		}
	}
}

func TestKernelsThatMerge(t *testing.T) {
	for release, sound := range map[string]bool{
		"5.12.0": true, "5.11.22-generic": false, "4.19.0": false, "6.1": true, "10.0-rc1": true, "plan9": false, "": false,
	} {
		if err := merges(release); (err == nil) != sound {
			t.Errorf("%q: %v", release, err)
		}
	}
}
