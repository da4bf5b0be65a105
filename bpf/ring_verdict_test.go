package bpf

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// Verdicts at tcx, enum tcx_action_base of linux/bpf.h.
const (
	tcxNext = 1<<32 - 1
	tcxDrop = 2
)

// loadedRing is the program, loaded without an interface.
type loadedRing struct {
	ring *Ring
	rx   *rxring.Ring
}

func loadRingForTest(t *testing.T, at netip.AddrPort, loopback bool) *loadedRing {
	t.Helper()
	requireRing(t)
	objects, err := loadRingFor(at, nil, loopback)
	testhelp.Must(t, err)
	l := &loadedRing{ring: &Ring{name: "test", objects: objects, link: fakeLink{}}}
	t.Cleanup(func() { testhelp.Must(t, l.ring.Close()) })
	l.rx = openRing(t, l.ring)
	return l
}

// verdict is what happens to a frame.
type verdict uint8

const (
	strange verdict = iota // the program does not recognize it as a packet of the socket
	passed                 // goes to the socket, and is counted
	taken                  // goes into the ring
)

// run passes a frame to the program, and returns the packet in the ring.
func (l *loadedRing) run(t *testing.T, frame []byte) (v verdict, p rxring.Packet) {
	t.Helper()
	before, passedBefore := l.takenSoFar(t), l.rx.Passed()
	action, err := l.ring.objects.NdRing.Run(&ebpf.RunOptions{Data: frame})
	testhelp.Must(t, err)
	l.rx.Edge()
	l.rx.Behind(l.rx.Passed())
	switch got := [3]bool{action == tcxDrop, l.rx.Next(&p), l.rx.Passed() != passedBefore}; got {
	case [3]bool{true, true, false}:
		v = taken
	case [3]bool{false, false, true}:
		v = passed
	case [3]bool{}:
	default:
		t.Errorf("%d bytes: dropped, in the ring, passed: %t", len(frame), got)
	}
	if action != tcxDrop && action != tcxNext {
		t.Errorf("%d bytes: action %#x", len(frame), action)
	}
	if counted := l.takenSoFar(t) - before; counted > 1 || (counted == 1) != (v == taken) {
		t.Errorf("%d bytes: %d are counted as taken", len(frame), counted)
	}
	l.rx.Release()
	return v, p
}

func (l *loadedRing) takenSoFar(t *testing.T) uint64 {
	t.Helper()
	n, err := l.ring.Taken()
	testhelp.Must(t, err)
	return n
}

// toUs addresses a frame to the interface of test runs, whose link-layer address is zero.
func toUs(frame []byte) []byte { return with(frame, 0, 0, 0, 0, 0, 0, 0) }

// Offsets in frames without a tag.
const (
	ipAt           = 14
	udp4At, udp6At = ipAt + 20, ipAt + 40
	len4At, len6At = ipAt + 2, ipAt + 4
)

var (
	good4, good6 = toUs(frame4()), toUs(frame6())
	padding      = make([]byte, 20) // link-layer padding
)

// Every kind of frame. The kernel handles frames that are incomplete, or not clearly for the socket.
var ringVerdicts = []struct {
	name  string
	frame []byte
	want  verdict
}{
	{"IPv4", good4, taken},
	{"IPv6", good6, taken},
	{"IPv4 without DF", with(good4, ipAt+6, 0, 0), taken},
	{"to all link addresses", with(good4, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), taken},
	{"to another link address", with(good4, 5, 1), strange},
	{"IPv4 with padding", slices.Concat(good4, padding), taken},
	{"IPv6 with padding", slices.Concat(good6, padding), taken},
	{"IPv4 cut", good4[:len(good4)-1], passed},
	{"IPv6 cut", good6[:len(good6)-1], passed},
	{"IPv4 without payload", with(with(good4, udp4At+4, 0, 8), len4At, 0, 28)[:udp4At+8], passed},
	{"IPv6 without payload", with(with(good6, udp6At+4, 0, 8), len6At, 0, 8)[:udp6At+8], passed},
	{"a UDP length in the padding, IPv4", slices.Concat(with(good4, udp4At+4, 0, 8+8+1), padding), passed},
	{"a UDP length in the padding, IPv6", slices.Concat(with(good6, udp6At+4, 0, 8+8+1), padding), passed},
	{"a UDP length below that of IPv4", with(good4, udp4At+4, 0, 15), passed},
	{"a UDP length below that of IPv6", with(good6, udp6At+4, 0, 15), passed},
	{"a UDP length beyond the frame, IPv4", with(good4, udp4At+4, 0, 8+8+1), passed},
	{"a UDP length beyond the frame, IPv6", with(good6, udp6At+4, 0, 8+8+1), passed},
	{"lengths beyond the frame that agree, IPv4", with(with(good4, udp4At+4, 0, 40), len4At, 0, 60), passed},
	{"lengths beyond the frame that agree, IPv6", with(with(good6, udp6At+4, 0, 40), len6At, 0, 40), passed},
	{"a UDP length within its header", with(with(good4, udp4At+4, 0, 7), len4At, 0, 27), passed},
	{"a UDP length of none", with(with(good4, udp4At+4, 0, 0), len4At, 0, 20), passed},
	{"lengths of none", with(with(good6, udp6At+4, 0, 0), len6At, 0, 0), passed},
	{"an IPv4 length within its header", with(good4, len4At, 0, 10), passed},
	{"the greatest lengths", with(with(good6, udp6At+4, 0xff, 0xff), len6At, 0xff, 0xff), passed},
	{"IPv4 with version 6", with(good4, ipAt, 0x65), strange},
	{"IPv6 with version 4", with(good6, ipAt, 0x40), strange},
	{"IPv4 options", with(good4, ipAt, 0x46), strange},
	{"IPv4 short header", with(good4, ipAt, 0x44), strange},
	{"IPv4 first fragment", with(good4, ipAt+6, 0x20, 0), strange},
	{"IPv4 middle fragment", with(good4, ipAt+6, 0x20, 1), strange},
	{"IPv4 last fragment", with(good4, ipAt+6, 0x1f, 0), strange},
	{"IPv6 fragment header", with(good6, ipAt+6, syscall.IPPROTO_FRAGMENT), strange},
	{"IPv6 hop-by-hop options", with(good6, ipAt+6, syscall.IPPROTO_HOPOPTS), strange},
	{"IPv4 TCP", with(good4, ipAt+9, syscall.IPPROTO_TCP), strange},
	{"IPv6 TCP", with(good6, ipAt+6, syscall.IPPROTO_TCP), strange},
	{"ARP", with(good4, 12, 0x08, 0x06), strange},
	{"other port", toUs(udpFrame(remote4, local4, 53)), strange},
	{"port with swapped bytes", toUs(udpFrame(remote6, local6, 0x409c)), strange},
	{"IPv4 to another address", toUs(udpFrame(remote4, other4, testPort)), strange},
	{"IPv6 to another address", toUs(udpFrame(remote6, remote6, testPort)), strange},
	{"IPv4 from itself", toUs(udpFrame(local4, local4, testPort)), strange},
	{"IPv6 from itself", toUs(udpFrame(local6, local6, testPort)), strange},
	{"IPv6 to the mapped address", toUs(udpFrame(remote6, mapped4, testPort)), strange},
	{"IPv6 from a mapped address", toUs(udpFrame(netip.AddrFrom16(remote4.As16()), local6, testPort)), strange},
	{"a tag that the kernel did not take off", tagged(good4, 0x8100), strange},
	{"IPv4 UDP header cut", good4[:udp4At+7], strange},
	{"IPv6 UDP header cut", good6[:udp6At+7], strange},
}

func TestRingVerdicts(t *testing.T) {
	ring4 := loadRingForTest(t, netip.AddrPortFrom(local4, testPort), false)
	ring6 := loadRingForTest(t, netip.AddrPortFrom(local6, testPort), false)
	for _, c := range ringVerdicts {
		t.Run(c.name, func(t *testing.T) {
			v4, p4 := ring4.run(t, c.frame)
			v6, p6 := ring6.run(t, c.frame)
			if got := max(v4, v6); got != c.want || min(v4, v6) != strange {
				t.Errorf("verdicts %d and %d, want one to be %d", v4, v6, c.want)
			}
			for v, p := range map[verdict]rxring.Packet{v4: p4, v6: p6} {
				from := netip.AddrFrom16(p.IP).Unmap()
				if v == taken && (string(p.Data) != "ndpacket" || from != remote4 && from != remote6 || p.Port != 50000 || p.Marked) {
					t.Errorf("%q from %s port %d, marked %t", p.Data, from, p.Port, p.Marked)
				}
			}
		})
	}
}

// At a loopback interface, packets come from the ring's own address, too.
func TestRingVerdictsOnLoopback(t *testing.T) {
	for _, local := range []netip.Addr{local4, local6} {
		ring := loadRingForTest(t, netip.AddrPortFrom(local, testPort), true)
		if v, p := ring.run(t, toUs(udpFrame(local, local, testPort))); v != taken || netip.AddrFrom16(p.IP).Unmap() != local {
			t.Errorf("from %s to itself: verdict %d, from %v, want it taken", local, v, p.IP)
		}
	}
}

// Whatever lengths a packet states and however much of it arrives, the ring gets the bytes between its UDP header and the stated
// end, or nothing.
func TestRingVerdictsOfEveryLength(t *testing.T) {
	ring := loadRingForTest(t, netip.AddrPortFrom(local4, testPort), false)
	const headers = 14 + 20 + 8
	whole := append(toUs(frame4()), "padding."...)
	for length := 14 + 20; length <= len(whole); length++ { // the kernel runs no test with fewer bytes
		for udp := range 30 {
			for _, ip := range []int{20 + udp, 20 + udp - 1, 20 + udp + 1, 20 + 16} {
				frame := with(with(whole, 14+2, 0, byte(ip)), 14+20+4, 0, byte(udp))[:length]
				want := passed
				switch {
				case length < headers:
					want = strange
				case ip == 20+udp && udp > 8 && 14+ip <= length:
					want = taken
				}
				got, p := ring.run(t, frame)
				if got != want {
					t.Errorf("%d bytes, lengths %d and %d: verdict %d, want %d", length, ip, udp, got, want)
				}
				if got == taken && string(p.Data) != string(frame[headers:headers+udp-8]) {
					t.Errorf("%d bytes, lengths %d and %d: %q in the ring", length, ip, udp, p.Data)
				}
			}
		}
	}
}

// The program counts a packet after it reserves the record and before it checks whether the process is asleep. Only an atomic
// addition that returns the old value orders the two on every processor. Without it, program and process may miss each other on
// arm64.
func TestRingOrdersReservingAndAsleep(t *testing.T) {
	spec, err := loadRing()
	testhelp.Must(t, err)
	ordered, submits := false, 0
	for _, ins := range spec.Programs[ringProgNdRing].Instructions {
		switch {
		case ins.IsBuiltinCall() && ins.Constant == int64(asm.FnRingbufReserve):
			ordered = false
		case ins.OpCode.AtomicOp() == asm.FetchAdd:
			ordered = true
		case ins.IsBuiltinCall() && ins.Constant == int64(asm.FnRingbufSubmit):
			submits++
			if !ordered {
				t.Error("a record is submitted without a barrier behind its reservation")
			}
		}
	}
	if submits == 0 {
		t.Error("nothing is submitted")
	}
}
