package icmp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

var (
	from4 = netip.MustParseAddrPort("192.0.2.1:50001")
	to4   = netip.MustParseAddrPort("198.51.100.2:14791")
	from6 = netip.MustParseAddrPort("[2001:db8::1]:50001")
	to6   = netip.MustParseAddrPort("[2001:db8:9::2]:14791")
)

// quote is an IP packet with UDP header and payload.
func quote(from, to netip.AddrPort, payload []byte) (b []byte) {
	if from.Addr().Is4() {
		b = append(b, ipv4VersionIHL, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(ipv4Len+udpLen+len(payload)))
		b = append(b, 0, 0, 0x40, 0, 64, protoUDP, 0, 0)
	} else {
		b = append(b, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(udpLen+len(payload)))
		b = append(b, protoUDP, 64)
	}
	b = append(append(b, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, from.Port()), to.Port())
	return append(append(b, byte((udpLen+len(payload))>>8), byte(udpLen+len(payload)), 0, 0), payload...)
}

// message is an ICMP or ICMPv6 error with a valid checksum.
func message(kind, code byte, quoted []byte) []byte {
	b := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, quoted...)
	binary.BigEndian.PutUint16(b[2:], ^uint16(wire.PartialSum(0, b)))
	return b
}

// router4 and router6 are the senders of the errors.
var router4, router6 = [16]byte{10: 0xff, 11: 0xff, 12: 203, 14: 113, 15: 9}, [16]byte{0: 0x20, 1: 1, 15: 9}

// parse6 parses an error of the IPv6 router.
func parse6(b []byte) (Error, bool) { return Parse6(b, router6) }

// packet puts an IPv4 header of n bytes in front of a message.
func packet(n int, message []byte) []byte {
	b := make([]byte, n)
	b[0] = 0x40 | byte(n/4)
	copy(b[12:], router4[12:])
	return append(b, message...)
}

func TestParse(t *testing.T) {
	payload := []byte("what was sent")
	for name, c := range map[string]struct {
		parse    func([]byte) (Error, bool)
		b        []byte
		from, to netip.AddrPort
		kind     Kind
	}{
		"IPv4 network":    {Parse4, packet(20, message(3, 0, quote(from4, to4, payload))), from4, to4, Network},
		"IPv4 host":       {Parse4, packet(20, message(3, 1, quote(from4, to4, payload))), from4, to4, Host},
		"IPv4 port":       {Parse4, packet(20, message(3, 3, quote(from4, to4, payload))), from4, to4, Port},
		"IPv4 prohibited": {Parse4, packet(20, message(3, 13, quote(from4, to4, payload))), from4, to4, Host},
		"IPv4 too big":    {Parse4, packet(20, message(3, 4, quote(from4, to4, payload))), from4, to4, TooBig},
		"IPv4 unknown":    {Parse4, packet(20, message(3, 16, quote(from4, to4, payload))), from4, to4, None},
		"IPv4 options":    {Parse4, packet(60, message(3, 1, quote(from4, to4, payload))), from4, to4, Host},
		"IPv6 no route":   {parse6, message(1, 0, quote(from6, to6, payload)), from6, to6, Network},
		"IPv6 prohibited": {parse6, message(1, 1, quote(from6, to6, payload)), from6, to6, Host},
		"IPv6 address":    {parse6, message(1, 3, quote(from6, to6, payload)), from6, to6, Host},
		"IPv6 too big":    {parse6, message(2, 0, quote(from6, to6, payload)), from6, to6, TooBig},
		"IPv6 port":       {parse6, message(1, 4, quote(from6, to6, payload)), from6, to6, Port},
		"IPv6 unknown":    {parse6, message(1, 7, quote(from6, to6, payload)), from6, to6, None},
	} {
		e, ok := c.parse(c.b)
		sender := router6
		if c.from.Addr().Is4() {
			sender = router4
		}
		if !ok || e.Sender != sender || e.Kind != c.kind || e.From != wire.EndpointFrom(c.from) || e.To != wire.EndpointFrom(c.to) || !bytes.Equal(e.Quoted, payload) {
			t.Errorf("%s: %+v, %t", name, e, ok)
		}
	}
}

// A message truncated within the UDP header is refused. A message truncated later quotes the remaining bytes.
func TestParseCutOff(t *testing.T) {
	whole4, whole6 := message(3, 1, quote(from4, to4, []byte("payload"))), message(1, 3, quote(from6, to6, []byte("payload")))
	for n := range whole4 {
		b := packet(20, message(3, 1, whole4[headerLen:max(n, headerLen)]))[:20+n]
		if e, ok := Parse4(b); ok != (n >= headerLen+ipv4Len+udpLen) || ok && len(e.Quoted) != n-headerLen-ipv4Len-udpLen {
			t.Errorf("IPv4, %d bytes: %+v, %t", n, e, ok)
		}
	}
	for n := range whole6 {
		if e, ok := parse6(whole6[:n]); ok != (n >= headerLen+ipv6Len+udpLen) || ok && len(e.Quoted) != n-headerLen-ipv6Len-udpLen {
			t.Errorf("IPv6, %d bytes: %+v, %t", n, e, ok)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	set := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	q4 := func() []byte { return quote(from4, to4, nil) }
	q6 := func() []byte { return quote(from6, to6, nil) }
	mapped6 := q6()
	copy(mapped6[8:], netip.MustParseAddr("::ffff:192.0.2.1").AsSlice())
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"short header":   set(packet(20, message(3, 1, q4())), 0, 0x44),
		"IPv6 in it":     set(packet(20, message(3, 1, q4())), 0, 0x65),
		"echo reply":     packet(20, message(0, 0, q4())),
		"time exceeded":  packet(20, message(11, 0, q4())),
		"checksum":       set(packet(20, message(3, 1, q4())), 20+4, 1),
		"quotes TCP":     packet(20, message(3, 1, set(q4(), 9, 6))),
		"quotes options": packet(20, message(3, 1, set(q4(), 0, 0x46))),
		"quotes IPv6":    packet(20, message(3, 1, set(q4(), 0, 0x65))),
		"fragment":       packet(20, message(3, 1, set(q4(), 7, 1))),
	} {
		if e, ok := Parse4(b); ok {
			t.Errorf("IPv4, %s: %+v", name, e)
		}
	}
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"quotes TCP":     message(1, 3, set(q6(), 6, 6)),
		"quotes IPv4":    message(1, 3, set(q6(), 0, 0x45)),
		"mapped address": message(1, 3, mapped6),
	} {
		if e, ok := parse6(b); ok {
			t.Errorf("IPv6, %s: %+v", name, e)
		}
	}
}

// FuzzParse checks that the result lies within the input, up to the beginning of the ND packet.
func FuzzParse(f *testing.F) {
	for _, n := range []int{0, 1, 36, 40, 48, 56, 100} {
		f.Add(packet(20, message(3, 1, quote(from4, to4, make([]byte, n)))), false)
		f.Add(message(1, 3, quote(from6, to6, make([]byte, n))), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, ipv6 bool) {
		parse, head := Parse4, headerLen+ipv4Len+udpLen
		b = bytes.Clone(b)
		if ipv6 {
			parse, head = parse6, headerLen+ipv6Len+udpLen
		} else if len(b) > 0 {
			outer := int(b[0]&15) * 4
			if head += outer; outer+headerLen <= len(b) { // fixes the checksum, which a fuzzer rarely guesses
				b[outer+2], b[outer+3] = 0, 0
				binary.BigEndian.PutUint16(b[outer+2:], ^uint16(wire.PartialSum(0, b[outer:])))
			}
		}
		e, ok := parse(bytes.Clone(b))
		if !ok {
			return
		}
		if len(b) < head || !bytes.Equal(e.Quoted, b[head:]) {
			t.Fatalf("%d bytes quote %d, the headers have %d", len(b), len(e.Quoted), head)
		}
		if got := binary.BigEndian.Uint16(b[head-6:]); e.To.Port != got || e.From.Is4() == ipv6 || e.To.Is4() == ipv6 {
			t.Fatalf("%+v of %x", e, b)
		}
		if again, same := parse(b[:len(b):len(b)]); !same || again.Kind != e.Kind {
			t.Fatalf("%+v, then %+v", e, again)
		}
		q, ok := wire.ParseQuote(e.Quoted)
		if q.HasNonce && !q.HasConnID || q.HasConnID && len(e.Quoted) < wire.ControlOffset+wire.ControlHeaderLen+8 || !ok && q != (wire.Quote{}) {
			t.Fatalf("%d bytes quote %+v", len(e.Quoted), q)
		}
	})
}
