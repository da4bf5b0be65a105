package wire

import (
	"bytes"
	"testing"
)

// oraclePart reads the extension the slow way (PROTOCOL §4.1).
func oraclePart(b []byte) Part {
	var o struct {
		Type, Index, Count, Zero uint8
		Total, Zero2             uint16
	}
	mustRead(bytes.NewReader(b), &o)
	if o.Type != 1 || o.Zero != 0 || o.Zero2 != 0 {
		panic("oracle: extension")
	}
	return Part{o.Index, o.Count, o.Total}
}

// oracleRange finds the bytes of a part by dealing out the whole packet, eight at a time (PROTOCOL §4.1).
func oracleRange(p Part) (from, to int) {
	each := 0
	for each*int(p.Count) < int(p.Total) {
		each += 8
	}
	for i := range int(p.Total) {
		if i/each == int(p.Index) {
			if to == 0 {
				from = i
			}
			to = i + 1
		}
	}
	return from, to
}

// testPart is the second part of a packet with one SEND of 2000 bytes, and the bytes that it carries.
func testPart() (Part, []byte) {
	p := Part{Index: 1, Count: 2, Total: 2020}
	from, to := p.Range()
	return p, bytes.Repeat([]byte("part"), (to-from+3)/4)[:to-from]
}

// TestGoldenPart checks the bytes of a part, with its base header and checksum (PROTOCOL §3, §4.1).
func TestGoldenPart(t *testing.T) {
	p, payload := testPart()
	f := BaseFields{OpCount: 1, Flags: FlagExt, PSN: 0xfffffff3, ConnID: 0x8081828384858687}
	b := make([]byte, BaseHeaderLen)
	PutBaseHeader(b, &f)
	b = append(p.Append(b), payload...)
	PutCRC(b, SumFirst(b))
	checkGolden(t, "part", b)
	b = readGolden(t, "part")
	checkBase(t, b, f)
	var got Part
	if d := ParsePart(b[BaseHeaderLen:], len(b)-BaseHeaderLen-PartLen, &got); d != DropNone || got != p {
		t.Errorf("parsed %+v (%v), want %+v", got, d, p)
	}
	if got := oraclePart(b[BaseHeaderLen:]); got != p {
		t.Errorf("oracle read %+v, want %+v", got, p)
	}
}

// TestPartsTile: whatever is cut for whatever path, the parts fit the path and follow each other without gap or overlap
// (PROTOCOL §4.1).
func TestPartsTile(t *testing.T) {
	for limit := MinPacket; limit < 9000; limit += 193 {
		for total := limit - BaseHeaderLen + 1; total <= MaxPacket-BaseHeaderLen; total += 97 {
			n := PartsOf(total, limit)
			if n < 2 || n > MaxParts {
				t.Fatalf("%d bytes for a path of %d make %d parts", total, limit, n)
			}
			at := 0
			for i := range n {
				p := Part{uint8(i), uint8(n), uint16(total)}
				from, to := p.Range()
				if from != at || to <= from || BaseHeaderLen+PartLen+to-from > limit {
					t.Fatalf("%d bytes for a path of %d: part %d of %d is %d to %d, want it from %d", total, limit, i, n, from, to, at)
				}
				at = to
			}
			if at != total {
				t.Fatalf("%d parts cover %d of %d bytes", n, at, total)
			}
		}
	}
}

// TestParsePartRefuses: what contradicts itself is dropped (PROTOCOL §4.1).
func TestParsePartRefuses(t *testing.T) {
	good, payload := testPart()
	have := len(payload)
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		have   int
		want   DropReason
	}{
		"fine":                  {func(b []byte) []byte { return b }, have, DropNone},
		"short":                 {func(b []byte) []byte { return b[:PartLen-1] }, have, DropShort},
		"another extension":     {func(b []byte) []byte { b[0] = 2; return b }, have, DropReserved},
		"reserved byte":         {func(b []byte) []byte { b[3] = 1; return b }, have, DropReserved},
		"reserved word":         {func(b []byte) []byte { b[7] = 1; return b }, have, DropReserved},
		"one part":              {func(b []byte) []byte { b[1], b[2] = 0, 1; return b }, 2020, DropPart},
		"no part":               {func(b []byte) []byte { b[2] = 0; return b }, have, DropPart},
		"too many":              {func(b []byte) []byte { b[2] = MaxParts + 1; return b }, have, DropPart},
		"index out of range":    {func(b []byte) []byte { b[1] = 2; return b }, have, DropPart},
		"larger than a packet":  {func(b []byte) []byte { b[4], b[5] = 0xff, 0xf0; return b }, have, DropPart},
		"nothing":               {func(b []byte) []byte { b[4], b[5] = 0, 0; return b }, 0, DropPart},
		"behind the end":        {func(b []byte) []byte { b[4], b[5] = 0, 8; return b }, 0, DropPart},
		"fewer bytes than that": {func(b []byte) []byte { return b }, have - 1, DropPart},
		"more bytes than that":  {func(b []byte) []byte { return b }, have + 1, DropPart},
	} {
		var p Part
		if d := ParsePart(c.change(good.Append(nil)), c.have, &p); d != c.want {
			t.Errorf("%s: %v, want %v", name, d, c.want)
		}
	}
}

// FuzzParsePart: what is accepted is what the encoder produces, and covers bytes of its packet (PROTOCOL §4.1).
func FuzzParsePart(f *testing.F) {
	p, payload := testPart()
	f.Add(p.Append(nil), len(payload))
	f.Add((&Part{Index: 56, Count: 57, Total: MaxPacket - BaseHeaderLen}).Append(nil), 1)
	f.Fuzz(func(t *testing.T, b []byte, have int) {
		var p Part
		if ParsePart(b, have, &p) != DropNone {
			return
		}
		if want := oraclePart(b); p != want {
			t.Fatalf("parsed %+v, oracle read %+v", p, want)
		}
		if out := p.Append(nil); !bytes.Equal(out, b[:PartLen]) {
			t.Fatalf("% x became % x", b[:PartLen], out)
		}
		from, to := p.Range()
		if wantFrom, wantTo := oracleRange(p); from != wantFrom || to != wantTo || to-from != have {
			t.Fatalf("%+v covers %d to %d of %d bytes, oracle says %d to %d", p, from, to, have, wantFrom, wantTo)
		}
	})
}

// TestControlHasNoParts: an unsequenced packet with the extension's flag is dropped, and so is one of several fragments that
// is no PROBE (PROTOCOL §4.1, §5).
func TestControlHasNoParts(t *testing.T) {
	for _, p := range testPackets() {
		if len(p.ops) > 0 || p.opcode == 0 {
			continue
		}
		b := p.encode()
		b[offFlags] |= byte(FlagExt)
		if _, d := ParseBaseHeader(b); d != DropReserved {
			t.Errorf("%s with EXT: %v, want %v", p.name, d, DropReserved)
		}
		b[offFlags] &^= byte(FlagExt)
		if p.padTo > 0 || p.opcode == CtlPing || p.opcode == CtlRTU || p.opcode == CtlDREQ {
			continue
		}
		if _, d := ParseControl(b, BaseHeaderLen, len(b)+8); d != DropTrailing {
			t.Errorf("%s with 8 bytes more in another fragment: %v, want %v", p.name, d, DropTrailing)
		}
	}
	probe := Probe{Nonce: 1, Size: 9000}
	b := make([]byte, ControlOffset+ControlHeaderLen, 100)
	PutBaseHeader(b, &BaseFields{ConnID: 1})
	PutControl(b[ControlOffset:], CtlProbe, 0, probeLen)
	b = probe.Append(b)
	for total, want := range map[int]DropReason{9000: DropNone, 8999: DropLength, 9001: DropLength} {
		if _, d := ParseControl(b, BaseHeaderLen, total); d != want {
			t.Errorf("a PROBE of 9000 in %d bytes: %v, want %v", total, d, want)
		}
	}
}
