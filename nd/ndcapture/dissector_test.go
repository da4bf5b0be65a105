package ndcapture

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/wire"
)

func endpoint(s string) wire.Endpoint { return wire.EndpointFrom(netip.MustParseAddrPort(s)) }

// goldens returns the golden packets of package wire by name: every packet type of PROTOCOL §4 and §5 occurs.
func goldens(t *testing.T) (names []string, packets [][]byte) {
	t.Helper()
	files, err := filepath.Glob("../../wire/testdata/*.hex")
	if err != nil || len(files) < 23 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hex")
		if strings.HasPrefix(name, "frame_") {
			continue // whole frames, whose packets occur among the others
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		for line := range strings.Lines(string(text)) {
			_, digits, _ := strings.Cut(line, ":")
			part, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			b = append(b, part...)
		}
		names, packets = append(names, name), append(packets, b)
	}
	return names, packets
}

// TestDissectorReadsEveryPacketType compares every field of the dissector with the value of the Go decoder, for the golden packets.
// The two decoders of PROTOCOL §3, §3.5, §3.6, §4, §5 and §7.1 share no code.
func TestDissectorReadsEveryPacketType(t *testing.T) {
	names, packets := goldens(t)
	all := allFields(t)
	got := dissect(t, writePackets(t, peer4, 0, packets...), all, "-o", "ndxdp.crc:TRUE")
	if len(got) != len(packets) {
		t.Fatalf("tshark saw %d packets of %d", len(got), len(packets))
	}
	used := map[string]bool{}
	for i, b := range packets {
		want, d := decode(b)
		if d != wire.DropNone {
			t.Fatalf("%s: %v", names[i], d)
		}
		if !wire.BaseHeader(b).Secure() {
			want.num("crc.good", 1)
		}
		if diff := want.differences(got[i]); diff != "" {
			t.Errorf("%s: the decoders disagree:\n%s", names[i], diff)
		}
		for name := range got[i] {
			used[name] = true
		}
	}
	for _, name := range all {
		if !used[name] && !isExpert(name) {
			t.Errorf("no golden packet has the field %s", name)
		}
	}
}

// isExpert reports whether a field marks an expert info. tshark lists these as fields.
func isExpert(name string) bool {
	return slices.Contains([]string{"malformed", "unknown", "crc.bad", "padding", "cut", "term", "rnr"}, strings.TrimPrefix(name, "ndxdp."))
}

// TestDissectorChecksum tests a right and a wrong checksum over both families (PROTOCOL §3.4).
func TestDissectorChecksum(t *testing.T) {
	_, packets := goldens(t)
	for _, ends := range [][2]wire.Endpoint{peer4, peer6} {
		var sealed [][]byte
		for _, b := range packets {
			if wire.BaseHeader(b).Secure() {
				continue // it has a tag in place of a checksum
			}
			b = slices.Clone(b)
			h := wire.BaseHeader(b[:wire.BaseHeaderLen])
			wire.PutCRC(b, wire.SumFirst(uint64(h.Number()), uint32(h.Message()), b))
			bad := slices.Clone(b)
			bad[len(bad)-1] ^= 0x40
			sealed = append(sealed, b, bad)
		}
		for i, p := range dissect(t, writePackets(t, ends, 0, sealed...), []string{"ndxdp.crc.good"}, "-o", "ndxdp.crc:TRUE") {
			if want := []string{[]string{"1", "0"}[i%2]}; !slices.Equal(p["ndxdp.crc.good"], want) {
				t.Errorf("%v, packet %d: crc.good is %v, want %v", ends[0], i, p["ndxdp.crc.good"], want)
			}
		}
	}
}

// TestDissectorFindsThePort tests how packets are recognized: by the configured port, and on any other port by their checksum.
func TestDissectorFindsThePort(t *testing.T) {
	_, packets := goldens(t)
	file := writePackets(t, peer4, 0, packets...)
	ours := func(args ...string) int {
		return strings.Count(tshark(t, append(args, "-r", file, "-Y", "ndxdp", "-T", "fields", "-e", "frame.number")...), "\n")
	}
	if n := ours(); n != len(packets) {
		t.Errorf("%d of %d packets on the default port", n, len(packets))
	}
	if n := ours("-o", "ndxdp.port:9"); n != len(packets) {
		t.Errorf("%d of %d packets by their checksums", n, len(packets))
	}
	forged := slices.Clone(packets)
	for i := range forged {
		forged[i] = slices.Clone(forged[i])
		forged[i][wire.CRCOffset] ^= 1
	}
	file = writePackets(t, peer4, 0, forged...)
	if n := ours("-o", "ndxdp.port:9"); n != 0 {
		t.Errorf("%d packets with a wrong checksum on a port that is not ours", n)
	}
	file = writePackets(t, [2]wire.Endpoint{peer4[0], endpoint("198.51.100.7:9")}, 0, forged...)
	if n := ours("-d", "udp.port==9,ndxdp"); n != len(packets) {
		t.Errorf("%d of %d packets with Decode As", n, len(packets))
	}
}

// mangled returns packets that are damaged in all ways that a few changed, missing or added bytes cause.
func mangled(packets [][]byte, rng *rand.Rand) (broken [][]byte) {
	for _, b := range packets {
		headers := min(len(b), 160)
		for at := range headers {
			c := slices.Clone(b)
			c[at] = []byte{0, 1, 2, c[at] + 1, c[at] ^ 0x80, 0xff}[rng.IntN(6)]
			broken = append(broken, c)
		}
		for range 24 {
			c := slices.Clone(b)
			for range 1 + rng.IntN(3) {
				c[rng.IntN(headers)] ^= 1 << rng.IntN(8)
			}
			broken = append(broken, c[:len(c)-rng.IntN(2)*rng.IntN(len(c))])
		}
		broken = append(broken, append(slices.Clone(b), 0), append(slices.Clone(b), 1), b[:len(b)-1])
	}
	return slices.DeleteFunc(broken, func(b []byte) bool { return len(b) == 0 })
}

// misplaced returns valid packets of operations in every order, at the beginning of a message and inside of one (PROTOCOL §3.1,
// §4), invalid operations, and packets without contents.
func misplaced() (packets [][]byte) {
	ops := []wire.Op{
		{Opcode: wire.OpWrite, Flags: wire.OpLast},
		{Opcode: wire.OpWrite, Length: 8, Total: 16},
		{Opcode: wire.OpReadReq, Flags: wire.OpLast},
		{Opcode: wire.OpReadResp, Length: 8, Total: 16},
		{Opcode: wire.OpTerm, Flags: wire.OpLast},
		{Opcode: wire.OpMore, Length: 8},
		{Opcode: wire.OpMore, Flags: wire.OpLast, Length: 4},
	}
	wrong := []wire.Op{ // invalid by themselves, by their length or flags
		{Opcode: wire.OpReadResp, Length: 8, Total: 4},
		{Opcode: wire.OpReadResp, Total: 16},
		{Opcode: wire.OpMore, Flags: wire.OpLast},
		{Opcode: wire.OpReadReq, Flags: wire.OpLast, Length: 4},
		{Opcode: wire.OpTerm, Flags: wire.OpLast, Length: 4},
		{Opcode: wire.OpReadReq},
		{Opcode: wire.OpTerm},
	}
	for _, flags := range []wire.Flags{0, wire.FlagSpace} {
		for _, offset := range []uint32{0, 1 << 16} {
			bare := wire.BaseFields{Operations: true, Flags: flags, Offset: offset, ConnID: 1}
			packets = append(packets, packetOf(&bare))
			for i := range wrong {
				packets = append(packets, packetOf(&bare, wrong[i]))
			}
			for i := range ops {
				for j := range ops {
					packets = append(packets, packetOf(&bare, ops[i], ops[j]))
				}
			}
			bare.Operations, bare.Piece = false, true
			packets = append(packets, packetOf(&bare), append(packetOf(&bare), 7))
		}
	}
	starved := wire.Report{Flags: wire.ReportRNR} // a report without a valid offset
	return append(packets, starved.Append(packetOf(&wire.BaseFields{Flags: wire.FlagReport, ConnID: 1})))
}

// packetOf encodes operations with payload of zeros.
func packetOf(f *wire.BaseFields, ops ...wire.Op) []byte {
	b := make([]byte, wire.BaseHeaderLen, 256)
	wire.PutBaseHeader(b, f)
	for i := range ops {
		at := (len(b) + wire.OpAlign - 1) &^ (wire.OpAlign - 1)
		b = b[:at+wire.MaxOpHeader]
		b = b[:at+wire.PutOp(b[at:], &ops[i])+int(ops[i].Length)]
	}
	return b
}

// TestDissectorAgreesOnWhatIsMalformed gives thousands of damaged packets to both decoders (PROTOCOL §3.1, §3.3, §4, §5). A packet
// has an expert info "malformed" exactly if the Go decoder drops it.
func TestDissectorAgreesOnWhatIsMalformed(t *testing.T) {
	_, packets := goldens(t)
	broken := append(mangled(packets, rand.New(rand.NewPCG(1, 2))), misplaced()...)
	expert := []string{"ndxdp.malformed", "ndxdp.unknown", "_ws.malformed", "_ws.lua.error"}
	got := dissect(t, writePackets(t, peer4, 0, broken...), append(expert, "ndxdp.version"))
	if len(got) != len(broken) {
		t.Fatalf("tshark saw %d packets of %d", len(got), len(broken))
	}
	dropped, disagree := 0, 0
	for i, b := range broken {
		// Wireshark counts an expert info of ours as malformed, too. A larger count means that the dissector itself failed.
		if len(got[i]["_ws.malformed"]) > len(got[i]["ndxdp.malformed"]) || got[i]["_ws.lua.error"] != nil {
			t.Errorf("the dissector failed over\n%x: %v", b, got[i])
		}
		_, d := decode(b)
		if d != wire.DropNone {
			dropped++
		}
		if bad := got[i]["ndxdp.malformed"] != nil || got[i]["ndxdp.unknown"] != nil; bad != (d != wire.DropNone) {
			if disagree++; disagree <= 10 {
				t.Errorf("Go says %v, Lua %v, over\n%x", d, got[i], b)
			}
		}
	}
	if dropped < len(broken)/4 || dropped > len(broken)*3/4 {
		t.Errorf("%d of %d packets are to be dropped: the test has lost its balance", dropped, len(broken))
	}
}

// TestDissectorOfCutPackets: a packet that the snap length truncates is not malformed.
func TestDissectorOfCutPackets(t *testing.T) {
	names, packets := goldens(t)
	for snap := 1; snap < 120; snap += 17 {
		file := writePackets(t, peer4, snap, packets...)
		for i, p := range dissect(t, file, []string{"ndxdp.malformed", "ndxdp.unknown", "ndxdp.cut", "_ws.malformed", "_ws.lua.error"}) {
			delete(p, "ndxdp.cut")
			if len(p) > 0 {
				t.Errorf("%s cut to %d bytes: %v", names[i], snap, p)
			}
		}
	}
}
