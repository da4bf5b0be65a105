package udp

import (
	"bytes"
	"net/netip"
	"testing"
)

// A long message leaves as one GSO batch. A receiver for which it is whole gets it as one datagram, any other one gets its segments.
// A plain socket gets the segments, too.
func TestLongMessages(t *testing.T) {
	for _, at := range []netip.Addr{addrA, netip.IPv6Loopback()} {
		n := newNetwork(t)
		out, _ := openRuns(t, n, at)
		in, addr := openRuns(t, n, at)
		plain, plainAddr := open(t, n, at)
		s := NewSender(4, 3)
		long := sized(3, 60000)
		send := func(to netip.AddrPort) {
			t.Helper()
			dst := AddrOf(to, 0)
			s.Begin(&dst, false, 1400, true)
			s.Add(sized(1, 1400))
			s.BeginLong(&dst, false, len(long), 1400)
			s.Add(long[:100])
			s.Add(long[100:50000])
			s.Add(long[50000:])
			s.Begin(&dst, false, 1400, true)
			s.Add(sized(2, 1400))
			if refused, _ := s.Send(out); refused != 0 || s.InRuns() != 1 {
				t.Fatalf("%v: %d datagrams refused", at, refused)
			}
		}
		for _, whole := range []bool{true, false} {
			r := NewReceiver(newPool(t, 16), 8, 8*frameSize, 24)
			r.Whole = func(b []byte) bool { return whole && bytes.Equal(b, long) }
			send(addr)
			var got [][]byte
			for r.Receive(in) {
				for d := (Datagram{}); r.Next(&d); r.Release(d.Frame) {
					got = append(got, bytes.Clone(d.Data))
				}
			}
			if all := bytes.Join(got, nil); !bytes.Equal(all, bytes.Join([][]byte{sized(1, 1400), long, sized(2, 1400)}, nil)) {
				t.Errorf("%v, whole %v: %d bytes arrived, and differ from the sent bytes", at, whole, len(all))
			}
			if want := map[bool]int{true: 3, false: 45}[whole]; len(got) != want {
				t.Errorf("%v, whole %v: %d datagrams, want %d", at, whole, len(got), want)
			}
			r.Close()
		}
		send(plainAddr)
		r, total := newReceiver(t, 64, 128), 0
		for n := r.count(plain); n > 0; n = r.count(plain) {
			total += n
		}
		if total != 45 {
			t.Errorf("%v: %d datagrams at a plain socket, want 45", at, total)
		}
		r.Close()
	}
}
