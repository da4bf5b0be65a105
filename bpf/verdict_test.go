package bpf

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// XDP actions of linux/bpf.h.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// afXDP is AF_XDP, which package syscall lacks.
const afXDP = 44

const testPort = 40000 // differs from its byte-swapped form

var (
	local4  = netip.MustParseAddr("192.0.2.1")
	other4  = netip.MustParseAddr("192.0.2.2")
	remote4 = netip.MustParseAddr("198.51.100.7")
	local6  = netip.MustParseAddr("2001:db8::1")
	remote6 = netip.MustParseAddr("2001:db8::7")
	mapped4 = netip.AddrFrom16(local4.As16()) // ::ffff:192.0.2.1
)

// requireSupport skips a test that cannot load programs, and says what is missing.
func requireSupport(t testing.TB) {
	t.Helper()
	netlabtest.NeedRoot(t)
	if err := Supported(); err != nil {
		t.Skip(err)
	}
}

// udpFrame builds an Ethernet frame. The helpers below modify it.
func udpFrame(src, dst netip.Addr, port uint16) []byte {
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	udp := binary.BigEndian.AppendUint16(nil, 50000)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = append(udp, 0, 16, 0, 0, 'n', 'd', 'p', 'a', 'c', 'k', 'e', 't')
	if src.Is4() {
		frame = append(frame, 0x08, 0x00)
		frame = append(frame, 0x45, 0, 0, byte(20+len(udp)), 0, 0, 0x40, 0, 64, syscall.IPPROTO_UDP, 0, 0)
	} else {
		frame = append(frame, 0x86, 0xdd)
		frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(udp)), syscall.IPPROTO_UDP, 64)
	}
	frame = append(frame, src.AsSlice()...)
	frame = append(frame, dst.AsSlice()...)
	return append(frame, udp...)
}

func frame4() []byte { return udpFrame(remote4, local4, testPort) }
func frame6() []byte { return udpFrame(remote6, local6, testPort) }

// with returns a copy of frame with bytes replaced from offset.
func with(frame []byte, offset int, b ...byte) []byte {
	frame = append([]byte(nil), frame...)
	copy(frame[offset:], b)
	return frame
}

// tagged returns a copy of frame with a priority tag after the addresses.
func tagged(frame []byte, tpid uint16) []byte { return inVLAN(frame, tpid, 0) }

// inVLAN returns a copy of frame with a tag of a VLAN, and of the highest priority, after the addresses.
func inVLAN(frame []byte, tpid, id uint16) []byte {
	out := append([]byte(nil), frame[:12]...)
	out = binary.BigEndian.AppendUint16(out, tpid)
	out = binary.BigEndian.AppendUint16(out, 7<<13|id)
	return append(out, frame[12:]...)
}

// Every kind of frame that is steered, and one of each kind that is not (PROTOCOL §2).
func TestVerdicts(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	for _, a := range []netip.Addr{local4, local6} {
		if err := s.AddAddress(a); err != nil {
			t.Fatal(err)
		}
	}
	fillSocket(t, s, 0)
	const ip4, ip6 = 14, 14 // offsets of the IP headers
	for _, test := range []struct {
		name    string
		frame   []byte
		action  uint32
		verdict Verdict
	}{
		{"IPv4", frame4(), xdpRedirect, VerdictRedirected},
		{"IPv6", frame6(), xdpRedirect, VerdictRedirected},
		{"IPv4 without DF", with(frame4(), ip4+6, 0, 0), xdpRedirect, VerdictRedirected},
		{"IPv4 behind a tag", tagged(frame4(), 0x8100), xdpRedirect, VerdictRedirectedVLAN},
		{"IPv6 behind a tag", tagged(frame6(), 0x8100), xdpRedirect, VerdictRedirectedVLAN},
		{"IPv4 of a VLAN", inVLAN(frame4(), 0x8100, 5), xdpPass, VerdictVLANOther},
		{"IPv6 of a VLAN", inVLAN(frame6(), 0x8100, 1), xdpPass, VerdictVLANOther},
		{"the last VLAN", inVLAN(frame6(), 0x8100, 0xfff), xdpPass, VerdictVLANOther},
		{"ARP of a VLAN", inVLAN(with(frame4(), 12, 0x08, 0x06), 0x8100, 5), xdpPass, VerdictVLANOther},
		{"two tags, the outer one of a VLAN", inVLAN(tagged(frame4(), 0x8100), 0x8100, 5), xdpPass, VerdictVLANNested},
		{"from itself, of a VLAN", inVLAN(udpFrame(local4, local4, testPort), 0x8100, 5), xdpPass, VerdictVLANOther},
		{"several buffers", append(frame4(), make([]byte, 8000)...), xdpRedirect, VerdictRedirected},
		{"no payload", frame4()[:14+20+8], xdpRedirect, VerdictRedirected},
		{"two tags", tagged(tagged(frame4(), 0x8100), 0x8100), xdpPass, VerdictVLANNested},
		{"802.1ad tag", tagged(frame4(), 0x88a8), xdpPass, VerdictVLANNested},
		{"802.1ad tag inside", tagged(tagged(frame4(), 0x88a8), 0x8100), xdpPass, VerdictVLANNested},
		{"ARP", with(frame4(), 12, 0x08, 0x06), xdpPass, VerdictNotIP},
		{"tagged ARP", tagged(with(frame4(), 12, 0x08, 0x06), 0x8100), xdpPass, VerdictNotIP},
		{"IPv4 with version 6", with(frame4(), ip4, 0x65), xdpPass, VerdictNotIP},
		{"IPv6 with version 4", with(frame6(), ip6, 0x45), xdpPass, VerdictNotIP},
		{"IPv4 options", with(frame4(), ip4, 0x46), xdpPass, VerdictIPOptions},
		{"IPv4 short header", with(frame4(), ip4, 0x44), xdpPass, VerdictIPOptions},
		{"IPv4 first fragment", with(frame4(), ip4+6, 0x20, 0), xdpPass, VerdictFragment},
		{"IPv4 middle fragment", with(frame4(), ip4+6, 0x20, 1), xdpPass, VerdictFragment},
		{"IPv4 last fragment", with(frame4(), ip4+6, 0x1f, 0), xdpPass, VerdictFragment},
		{"IPv6 fragment header", with(frame6(), ip6+6, syscall.IPPROTO_FRAGMENT), xdpPass, VerdictFragment},
		{"IPv4 TCP", with(frame4(), ip4+9, syscall.IPPROTO_TCP), xdpPass, VerdictNotUDP},
		{"IPv6 TCP", with(frame6(), ip6+6, syscall.IPPROTO_TCP), xdpPass, VerdictNotUDP},
		{"IPv6 hop-by-hop options", with(frame6(), ip6+6, syscall.IPPROTO_HOPOPTS), xdpPass, VerdictNotUDP},
		{"other port", udpFrame(remote4, local4, 53), xdpPass, VerdictOtherPort},
		{"port with swapped bytes", udpFrame(remote6, local6, 0x409c), xdpPass, VerdictOtherPort},
		{"IPv4 not local", udpFrame(remote4, other4, testPort), xdpPass, VerdictNotLocal},
		{"IPv6 not local", udpFrame(remote6, remote6, testPort), xdpPass, VerdictNotLocal},
		{"IPv6 to a mapped local address", udpFrame(remote6, mapped4, testPort), xdpPass, VerdictNotLocal},
		{"IPv4 from itself", udpFrame(local4, local4, testPort), xdpDrop, VerdictSpoofed},
		{"IPv6 from itself", udpFrame(local6, local6, testPort), xdpDrop, VerdictSpoofed},
		{"tagged IPv4 from itself", tagged(udpFrame(local4, local4, testPort), 0x8100), xdpDrop, VerdictSpoofed},
		{"IPv6 from a mapped local address", udpFrame(mapped4, local6, testPort), xdpDrop, VerdictSpoofed},
		{"local source, other port", udpFrame(local4, local4, 53), xdpPass, VerdictOtherPort},
		{"tag cut", tagged(frame4(), 0x8100)[:17], xdpPass, VerdictTruncated},
		{"IPv4 header missing", frame4()[:14], xdpPass, VerdictTruncated},
		{"IPv4 header cut", frame4()[:14+19], xdpPass, VerdictTruncated},
		{"IPv6 header cut", frame6()[:14+39], xdpPass, VerdictTruncated},
		{"IPv4 UDP header cut", frame4()[:14+20+7], xdpPass, VerdictTruncated},
		{"IPv6 UDP header cut", frame6()[:14+40+7], xdpPass, VerdictTruncated},
		{"tagged UDP header cut", tagged(frame4(), 0x8100)[:18+20+7], xdpPass, VerdictTruncated},
	} {
		t.Run(test.name, func(t *testing.T) { checkVerdict(t, s, test.frame, test.action, test.verdict) })
	}
}

// A valid frame that is truncated at any length gets a defined verdict. Only one that includes the whole UDP header is steered.
func TestVerdictsOfEveryLength(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	if err := errors.Join(s.AddAddress(local4), s.AddAddress(local6)); err != nil {
		t.Fatal(err)
	}
	fillSocket(t, s, 0)
	for _, test := range []struct {
		frame   []byte
		headers int
		verdict Verdict
	}{
		{frame4(), 14 + 20 + 8, VerdictRedirected},
		{tagged(frame6(), 0x8100), 18 + 40 + 8, VerdictRedirectedVLAN},
	} {
		for length := 14; length <= len(test.frame); length++ { // the kernel runs no test with fewer bytes
			action, verdict := uint32(xdpPass), VerdictTruncated
			if length >= test.headers {
				action, verdict = xdpRedirect, test.verdict
			}
			checkVerdict(t, s, test.frame[:length], action, verdict)
		}
	}
}

func TestVerdictWithoutSocket(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	checkVerdict(t, s, frame4(), xdpPass, VerdictNotLocal) // the maps are still empty
	if err := s.AddAddress(local4); err != nil {
		t.Fatal(err)
	}
	checkVerdict(t, s, frame4(), xdpPass, VerdictNoSocket)
	closeSocket := fillSocket(t, s, 0)
	checkVerdict(t, s, frame4(), xdpRedirect, VerdictRedirected)
	closeSocket() // the kernel clears the entry when the socket closes
	checkVerdict(t, s, frame4(), xdpPass, VerdictNoSocket)
}

// checkVerdict runs the program on one frame and compares its return value and its counters.
func checkVerdict(t *testing.T, s *Steering, frame []byte, action uint32, verdict Verdict) {
	t.Helper()
	before, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.objects.NdSteer.Run(&ebpf.RunOptions{Data: frame})
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if got != action {
		t.Errorf("%d bytes: action %d, want %d", len(frame), got, action)
	}
	want := before
	want[verdict]++
	if after != want {
		for v := range after {
			if after[v] != before[v] {
				t.Errorf("%d bytes: counted %d as verdict %d, want %d", len(frame), after[v]-before[v], v, verdict)
			}
		}
	}
}

func TestRedirected(t *testing.T) {
	c := Counters{VerdictRedirected: 2, VerdictRedirectedVLAN: 3, VerdictTruncated: 4}
	if c.Redirected() != 5 {
		t.Errorf("%d, want those with and without a tag", c.Redirected())
	}
}

// BenchmarkRedirect measures one steered frame, including the kernel's loop around it. Each repeated call also rewrites the XDP
// dispatcher, which takes milliseconds: hence many frames in a call.
func BenchmarkRedirect(b *testing.B) {
	requireSupport(b)
	s := loadForTest(b, 1)
	if err := s.AddAddress(local4); err != nil {
		b.Fatal(err)
	}
	fillSocket(b, s, 0)
	const perCall = 1_000_000
	options := ebpf.RunOptions{Data: frame4(), Repeat: perCall}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.objects.NdSteer.Run(&options); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perCall, "ns/frame")
}
