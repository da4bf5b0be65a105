package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// testFrame builds a whole frame around an ND payload with the template.
func testFrame(src, dst Endpoint, ecn ECN, payload []byte) []byte {
	t := NewFrameTemplate(testMACs[0], testMACs[1], src, dst)
	b := make([]byte, t.Len(), t.Len()+len(payload))
	t.Put(b, len(payload), ecn)
	if t.Is6() {
		t.SetUDPChecksum(b, PartialSum(0, payload), len(payload))
	}
	return append(b, payload...)
}

func frameCases() map[string][]byte {
	report, write := packetNamed("report"), packetNamed("write")
	return map[string][]byte{
		"frame_ipv4":          testFrame(testSrc, testDst, NotECT, report),
		"frame_ipv6":          testFrame(testSrc6, testDst6, NotECT, report),
		"frame_ipv4_markable": testFrame(testSrc, testDst, ECT0, write),
		"frame_ipv6_markable": testFrame(testSrc6, testDst6, ECT0, write),
	}
}

// TestGoldenFrames checks the encapsulation of PROTOCOL §2 and its checksums against their definition.
func TestGoldenFrames(t *testing.T) {
	for name, frame := range frameCases() {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, name, frame)
			var f Frame
			if r := ParseFrame(frame, len(frame), &f); r != DropNone {
				t.Fatal(r)
			}
			src, dst := testSrc, testDst
			if binary.BigEndian.Uint16(frame[f.Offset-8:]) != src.Port {
				t.Error("UDP header is not in front of the payload")
			}
			if !f.Src.Is4() {
				src, dst = testSrc6, testDst6
			}
			if f.Src != src || f.Dst != dst || f.SrcMAC != testMACs[0] || f.CE || f.Offset+f.Length != len(frame) {
				t.Errorf("parsed %+v", f)
			}
			checkChecksums(t, frame, &f)
		})
	}
}

// checkChecksums verifies the IPv4 header checksum or the IPv6 UDP checksum of a frame by definition.
func checkChecksums(t *testing.T, frame []byte, f *Frame) {
	t.Helper()
	udp := frame[f.Offset-8 : f.Offset+f.Length]
	if f.Src.Is4() {
		if sum := oracleSum(frame[f.Offset-28 : f.Offset-8]); sum != 0xffff {
			t.Errorf("IPv4 header sums to %#x", sum)
		}
		return
	}
	pseudo := append(append([]byte{}, f.Src.IP[:]...), f.Dst.IP[:]...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(udp)))
	pseudo = append(pseudo, 0, 0, 0, 17)
	if sum := oracleSum(append(pseudo, udp...)); sum != 0xffff {
		t.Errorf("UDP datagram sums to %#x", sum)
	}
}

// TestFrameTemplateLengths covers every length at the ends and some between (PROTOCOL §2).
func TestFrameTemplateLengths(t *testing.T) {
	payload := make([]byte, MaxPacket)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range payload {
		payload[i] = byte(rng.Uint32())
	}
	for _, n := range []int{0, 1, 2, 35, 36, 37, 255, 256, 1199, 1200, 1408, 8192, 65000, MaxPacket - 1, MaxPacket} {
		for _, pair := range [][2]Endpoint{{testSrc, testDst}, {testSrc6, testDst6}} {
			frame := testFrame(pair[0], pair[1], ECT0, payload[:n])
			var f Frame
			if r := ParseFrame(frame, len(frame), &f); r != DropNone || f.Length != n {
				t.Fatalf("%d bytes: %v, %+v", n, r, f)
			}
			checkChecksums(t, frame, &f)
		}
	}
}

// TestFrameTemplateTo reads the destination back.
func TestFrameTemplateTo(t *testing.T) {
	for _, pair := range [][2]Endpoint{{testSrc, testDst}, {testSrc6, testDst6}} {
		template := NewFrameTemplate(testMACs[0], testMACs[1], pair[0], pair[1])
		if got, want := template.To(), pair[1].AddrPort().Addr(); got != want {
			t.Errorf("to %v, want %v", got, want)
		}
	}
}

// TestUDPChecksumNeverZero finds the payload word that makes the sum zero and expects 0xffff (PROTOCOL §2, RFC 768).
func TestUDPChecksumNeverZero(t *testing.T) {
	frame := testFrame(testSrc6, testDst6, NotECT, []byte{0, 0})
	word := binary.BigEndian.Uint16(frame[60:])
	frame = testFrame(testSrc6, testDst6, NotECT, []byte{byte(word >> 8), byte(word)})
	if got := binary.BigEndian.Uint16(frame[60:]); got != 0xffff {
		t.Errorf("checksum %#x", got)
	}
}

// TestPartialSum compares the wide loop with the definition, for all sizes, alignments and splits (RFC 1071).
func TestPartialSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 300)
	for range 20_000 {
		for i := range b {
			b[i] = byte(rng.Uint32()) | byte(rng.Uint32()>>8) // many one bits, so many carries
		}
		lo := rng.IntN(len(b))
		p := b[lo : lo+rng.IntN(len(b)-lo)]
		cut := rng.IntN(len(p) + 1)
		want := oracleSum(p)
		if got := PartialSumAt(PartialSum(0, p[:cut]), cut, p[cut:]); uint16(got) != want {
			t.Fatalf("% x cut at %d: %#x, want %#x", p, cut, got, want)
		}
		cut &^= 1
		if got := PartialSum(PartialSum(0, p[:cut]), p[cut:]); uint16(got) != want {
			t.Fatalf("% x: %#x, want %#x", p, got, want)
		}
	}
}

// TestParseFrameDrops has one case for each drop reason of the encapsulation (PROTOCOL §2).
func TestParseFrameDrops(t *testing.T) {
	fix := func(b []byte) []byte { // recompute the IPv4 header checksum after an edit
		b[24], b[25] = 0, 0
		binary.BigEndian.PutUint16(b[24:], ^oracleSum(b[14:34]))
		return b
	}
	frames := frameCases()
	v4, v6 := frames["frame_ipv4"], frames["frame_ipv6"]
	tagged := slices.Concat(v4[:12], []byte{0x81, 0, 0xe0, 0}, v4[12:])
	set := func(frame []byte, off int, v ...byte) []byte {
		b := append([]byte{}, frame...)
		copy(b[off:], v)
		return b
	}
	mapped := testSrc.IP
	for _, c := range []struct {
		name  string
		frame []byte
		total int
		want  DropReason
	}{
		{"ok", v4, 0, DropNone},
		{"link padding", append(append([]byte{}, v4...), 0, 0, 0), 0, DropNone},
		{"payload in later fragments", v4[:42], len(v4), DropNone},
		{"priority tag", tagged, 0, DropNone},
		{"IPv6 with a priority tag", slices.Concat(v6[:12], []byte{0x81, 0, 0x20, 0}, v6[12:]), 0, DropNone},
		{"tag of a VLAN", set(tagged, 14, 0xe0, 5), 0, DropVLAN},
		{"tag of the last VLAN", set(tagged, 14, 0x0f, 0xff), 0, DropVLAN},
		{"ARP of a VLAN", set(tagged, 14, 0, 5, 0x08, 0x06), 0, DropVLAN},
		{"expedited, ECN capable", fix(set(v4, 15, 0xb9)), 0, DropNone},
		{"empty", nil, 0, DropShort},
		{"ethernet cut", v4[:13], 0, DropShort},
		{"tag cut", tagged[:17], 0, DropShort},
		{"ipv4 cut", v4[:41], len(v4), DropShort},
		{"ipv6 cut", v6[:61], len(v6), DropShort},
		{"fragment longer than frame", v4, len(v4) - 1, DropShort},
		{"arp", set(v4, 12, 0x08, 0x06), 0, DropEther},
		{"two tags", set(tagged, 16, 0x81, 0x00), 0, DropVLAN},
		{"service tag", set(v4, 12, 0x88, 0xa8), 0, DropVLAN},
		{"service tag inside", set(tagged, 16, 0x88, 0xa8), 0, DropVLAN},
		{"ipv6 in ipv4", set(v4, 14, 0x65), 0, DropIPVersion},
		{"ipv4 in ipv6", set(v6, 14, 0x45), 0, DropIPVersion},
		{"options", set(v4, 14, 0x46), 0, DropIPOptions},
		{"short IHL", set(v4, 14, 0x44), 0, DropIPOptions},
		{"checksum", set(v4, 22, 63), 0, DropIPChecksum},
		{"more fragments", fix(set(v4, 20, 0x20)), 0, DropFragment},
		{"fragment offset", fix(set(v4, 20, 0x40, 0x01)), 0, DropFragment},
		{"tcp", fix(set(v4, 23, 6)), 0, DropNotUDP},
		{"hop-by-hop", set(v6, 20, 0), 0, DropNotUDP},
		{"ipv4 length beyond frame", v4[:len(v4)-1], 0, DropIPLength},
		{"ipv4 length below headers", fix(set(v4, 16, 0, 27)), 0, DropIPLength},
		{"ipv6 length beyond frame", v6[:len(v6)-1], 0, DropIPLength},
		{"ipv6 length below headers", set(v6, 18, 0, 7), 0, DropIPLength},
		{"udp length long", set(v4, 38, 0xff), 0, DropUDPLength},
		{"udp length short", set(v6, 58, 0, 8), 0, DropUDPLength},
		{"ipv6 without checksum", set(v6, 60, 0, 0), 0, DropUDPChecksum},
		{"mapped source", set(v6, 22, mapped[:]...), 0, DropAddress},
		{"mapped destination", set(v6, 38, mapped[:]...), 0, DropAddress},
	} {
		if c.total == 0 {
			c.total = len(c.frame)
		}
		var f Frame
		if got := ParseFrame(c.frame, c.total, &f); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestFrameCE reads the congestion mark of both families (PROTOCOL §3.2, RFC 3168).
func TestFrameCE(t *testing.T) {
	for ecn := range byte(4) {
		v4 := frameCases()["frame_ipv4"]
		v4[15] = 0xb8 | ecn
		v4[24], v4[25] = 0, 0
		binary.BigEndian.PutUint16(v4[24:], ^oracleSum(v4[14:34]))
		v6 := frameCases()["frame_ipv6"]
		v6[15] = v6[15]&0xcf | ecn<<4
		for _, frame := range [][]byte{v4, v6} {
			var f Frame
			if r := ParseFrame(frame, len(frame), &f); r != DropNone || f.CE != (ecn == 3) {
				t.Errorf("ECN %d: %v, CE %v", ecn, r, f.CE)
			}
		}
	}
}

// TestSourcePort fixes the hash: with another hash every connection would move to another NIC queue (PROTOCOL §2).
func TestSourcePort(t *testing.T) {
	for id, want := range map[uint64]uint16{
		0: 49152, 1: 52012, 2: 50151, 0x0102030405060708: 49678, 0xffffffffffffffff: 57121,
	} {
		if got := SourcePort(id); got != want {
			t.Errorf("SourcePort(%#x) = %d, want %d", id, got, want)
		}
	}
	var low, high [sourcePorts]int // ids that differ only in their slot, and only in their random part
	for i := range uint64(4 * sourcePorts) {
		low[SourcePort(i+1)-FirstSourcePort]++
		high[SourcePort(i<<24+1)-FirstSourcePort]++
	}
	for i := range low {
		if low[i] > 20 || high[i] > 20 { // mean 4; Poisson says 20 in 16384 has odds below 1 in 100 000
			t.Errorf("port %d: %d and %d of %d connections", i+FirstSourcePort, low[i], high[i], 4*sourcePorts)
		}
	}
}

// TestEndpoint converts endpoints of both families to the standard library's form and back (PROTOCOL §3.4).
func TestEndpoint(t *testing.T) {
	for _, s := range []string{"192.0.2.1:14791", "[2001:db8::1]:1", "0.0.0.0:0", "[::]:0"} {
		ap := netip.MustParseAddrPort(s)
		e := EndpointFrom(ap)
		if e.AddrPort() != ap || e.String() != s || e.Is4() != ap.Addr().Is4() {
			t.Errorf("%s became %v (Is4 %v)", s, e, e.Is4())
		}
	}
	if EndpointFrom(netip.MustParseAddrPort("[::ffff:192.0.2.1]:5")) != EndpointFrom(netip.MustParseAddrPort("192.0.2.1:5")) {
		t.Error("the mapped form of an address is another endpoint")
	}
}

// TestFrameTemplateFamilies: a path between two families does not exist and is refused.
func TestFrameTemplateFamilies(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewFrameTemplate(testMACs[0], testMACs[1], testSrc, testDst6)
}
