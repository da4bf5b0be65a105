package ndcapture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/provider/sim"
	"github.com/ndxdp/ndxdp/wire"
)

// likeness returns the properties that packets of one kind share: type, flags, and the codes of their contents.
func likeness(f fields) string {
	return fmt.Sprint(f["ndxdp.type"], f["ndxdp.flags"], f["ndxdp.ctl.code"], f["ndxdp.ctl.flags"], f["ndxdp.op.code"], f["ndxdp.op.flags"], f["ndxdp.rej.reason"])
}

// talk collects the packets that engines send, at most alikeMost of each kind.
type talk struct {
	t       *testing.T
	alike   map[string]int
	codes   map[wire.Opcode]bool
	packets [][]byte
}

const alikeMost = 3

func (k *talk) Packet(p *provider.TapPacket) {
	if !p.Sent {
		return
	}
	var b []byte
	for _, piece := range p.Pieces {
		b = append(b, piece.Data...)
	}
	f, d := decode(b)
	if d != wire.DropNone {
		k.t.Errorf("an engine sent a packet that receivers drop: %v, % x", d, b)
		return
	}
	for _, field := range []string{"ndxdp.ctl.code", "ndxdp.op.code"} {
		for _, v := range f[field] {
			var code wire.Opcode
			_, _ = fmt.Sscan(v, &code)
			k.codes[code] = true
		}
	}
	if like := likeness(f); k.alike[like] < alikeMost {
		k.alike[like]++
		k.packets = append(k.packets, b)
	}
}

// missing returns the opcodes that no packet had. RETRY needs a flood, and there is none here: it is among the golden packets.
func (k *talk) missing() (names []string) {
	for v := range 256 {
		if op := wire.Opcode(v); !k.codes[op] && op != wire.CtlRETRY && !strings.HasSuffix(op.String(), "unknown") {
			names = append(names, op.String())
		}
	}
	return names
}

// TestDissectorReadsWhatEnginesSay gives both decoders the packets that engines exchange in simulated networks with all faults,
// until every opcode has occurred, and compares them field by field.
func TestDissectorReadsWhatEnginesSay(t *testing.T) {
	const worlds = 60
	k := &talk{t: t, alike: map[string]int{}, codes: map[wire.Opcode]bool{}}
	for seed := range uint64(worlds) {
		if seed >= 10 && len(k.missing()) == 0 {
			break
		}
		if _, err := sim.Run(seed, sim.Options{Hosts: 4, Sessions: 8, Tap: k}); err != nil {
			t.Fatal(err)
		}
	}
	if names := k.missing(); len(names) > 0 {
		t.Errorf("no packet had the opcodes %v in %d worlds", names, worlds)
	}
	t.Logf("%d kinds of packets", len(k.alike))
	for batch := range slices.Chunk(k.packets, 4000) {
		got := dissect(t, writePackets(t, peer4, 0, batch...), allFields(t), "-o", "ndxdp.crc:TRUE")
		if len(got) != len(batch) {
			t.Fatalf("tshark saw %d packets of %d", len(got), len(batch))
		}
		for i, b := range batch {
			want, _ := decode(b)
			if !wire.BaseHeader(b).Secure() {
				want.num("crc.good", 1)
			}
			if diff := want.differences(got[i]); diff != "" {
				t.Fatalf("the decoders disagree:\n%s\n% x", diff, b)
			}
		}
	}
}
