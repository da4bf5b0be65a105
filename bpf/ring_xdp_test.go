package bpf

import (
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// With an XDP program in generic mode, the kernel copies packets with too little headroom, and the copy loses the length of its
// link-layer header. The ring's program, which runs later, still finds the packet.
func TestRingBehindXDP(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{IPv6: true})
	testhelp.Must(t, p.A.Do(func() error {
		other, err := Attach(Config{Ifindex: p.IfindexA, Interface: p.NameA, Port: 9, Queues: 1, Mode: ModeGeneric})
		if err == nil {
			t.Cleanup(func() { testhelp.Must(t, other.Close()) })
		}
		return err
	}))
	for _, at := range []netip.Addr{p.AddrA.Addr(), p.Addr6A.Addr()} {
		r := receiveAt(t, p, netip.AddrPortFrom(at, testPort))
		sender := connect(t, p.B, r.at)
		for n := range 3 {
			payload := pattern(n, 100+n)
			_, err := sender.Write([]byte(payload))
			testhelp.Must(t, err)
			if got := r.next(t); !got.inRing || got.payload != payload || r.mac != [6]byte(p.MACB) {
				t.Errorf("%s: %q from %x in the ring %t, want %q from %x", at, got.payload, r.mac, got.inRing, payload, p.MACB)
			}
		}
	}
}
