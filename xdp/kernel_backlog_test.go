package xdp_test

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/cilium/ebpf/link"

	"github.com/ndxdp/ndxdp/xdp"
)

// addSlowDevice puts a macvlan interface on the pair's side. Below it, packets leave at a rate of bytes a second. Until then the
// kernel holds them, and charges them to the socket.
func (s *side) addSlowDevice(t testing.TB, rate uint64) *side {
	t.Helper()
	const burst, tickShift = 2000, 6 // bytes; a tick of a token bucket is 64 ns (PSCHED_SHIFT)
	parent, err := s.nl.LinkByName(s.name)
	if err != nil {
		t.Fatal(err)
	}
	tbf := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: parent.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Limit: 1 << 20, Buffer: uint32(burst * uint64(time.Second) / rate >> tickShift),
	}
	if err := s.nl.QdiscAdd(tbf); err != nil {
		t.Fatalf("slow %s down: %v", s.name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = s.name+"m", parent.Attrs().Index
	if err := s.nl.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
		t.Fatalf("add a macvlan interface: %v", err)
	}
	slow := &side{ns: s.ns, nl: s.nl, name: attrs.Name}
	slow.up(t)
	return slow
}

// TestKernelBacklog sends more packets than a slow device accepts. Kick reports the packets that wait for another Kick. Packets
// that the kernel took are pending until the device has sent them, although the ring is empty by then.
func TestKernelBacklog(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	slow := l.a.addSlowDevice(t, 200_000)
	slow.attach(t, 1, link.XDPGenericMode)
	x := slow.open(t, xdp.Config{SendBuffer: 4 << 10})
	// If the test is descheduled for longer than a packet takes, it does not see the kernel hold the packet, so it sends again.
	for deadline := time.Now().Add(waitLimit); !sendsSlowly(t, x); {
		if time.Now().After(deadline) {
			t.Fatal("the last packet always completed as soon as it was taken: the device is not slow")
		}
	}
	if left, err := x.Kick(); left != 0 || err != nil {
		t.Errorf("Kick of an empty ring: %d left, %v", left, err)
	}
}

// sendsSlowly sends 20 packets, and reports whether the kernel held the last one after it had left the ring.
func sendsSlowly(t *testing.T, x *xdp.Socket) (held bool) {
	t.Helper()
	const packets = 20
	var descs []xdp.Desc
	for i := range packets {
		var ok bool
		if descs, ok = putPacket(x, descs, 1000, i); !ok {
			t.Fatal("no tx frames")
		}
	}
	if n := x.Transmit(descs); n != packets {
		t.Fatalf("Transmit = %d", n)
	}
	left, err := x.Kick()
	if err != nil || left == 0 || left != x.TxUnsent() {
		t.Fatalf("Kick left %d of %d, %d unsent, %v; want some", left, packets, x.TxUnsent(), err)
	}
	for deadline := time.Now().Add(waitLimit); x.TxPending() > 0; {
		if left, err = x.Kick(); err != nil || left > packets {
			t.Fatalf("Kick: %d left, %v", left, err)
		}
		x.Complete(nil)
		held = held || x.TxUnsent() == 0 && x.TxPending() > 0
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d packets are still pending", x.TxPending(), packets)
		}
	}
	return held
}
