package bpf

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// The program counts packets to the bulk port before they reach its socket, and no others. They neither enter the ring nor count as
// left to the socket of the ring.
func TestRingCountsBulk(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{IPv6: true})
	for _, address := range []netip.Addr{p.AddrA.Addr(), p.Addr6A.Addr()} {
		r := receiveAt(t, p, netip.AddrPortFrom(address, testPort))
		bulk, other := netip.AddrPortFrom(address, testPort+1), netip.AddrPortFrom(address, testPort+2)
		send := func(to netip.AddrPort, n int) {
			t.Helper()
			in, out, payload := listenAt(t, p.A, to), connect(t, p.B, to), []byte(pattern(n, 64+n))
			_, err := out.Write(payload)
			testhelp.Must(t, err)
			testhelp.Must(t, in.SetReadDeadline(time.Now().Add(10*time.Second)))
			got := make([]byte, 2048)
			k, err := in.Read(got)
			if testhelp.Must(t, err); string(got[:k]) != string(payload) {
				t.Errorf("packet %d: %q arrived", n, got[:k])
			}
			testhelp.Must(t, in.Close())
		}
		send(bulk, 0)
		if got := r.rx.Bulk(); got != 0 {
			t.Errorf("%v: %d packets are counted without a bulk port", address, got)
		}
		r.rx.CountBulk(bulk.Port())
		send(bulk, 1)
		send(other, 2)
		send(bulk, 1000)
		if got, in := r.rx.Bulk(), r.counts(t); got != 2 || in != (counts{}) {
			t.Errorf("%v: %d packets are counted, want 2; ring and socket: %+v", address, got, in)
		}
		testhelp.Must(t, r.sock.Close())
	}
}
