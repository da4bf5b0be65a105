package ndcapture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// readBlocks takes a file apart: each block is its type, the bytes of its fields, and its options by their codes.
func readBlocks(t *testing.T, file []byte, fields map[uint32]func(body []byte) int) (lines []string) {
	t.Helper()
	for word := binary.LittleEndian.Uint32; len(file) > 0; {
		kind, n := word(file), word(file[4:])
		if n%4 != 0 || int(n) > len(file) || word(file[n-4:]) != n {
			t.Fatalf("a block of type %#x has the lengths %d and %d, with %d bytes left", kind, n, word(file[n-4:]), len(file))
		}
		body := file[8 : n-4]
		at := fields[kind](body)
		var line strings.Builder
		fmt.Fprintf(&line, "%#x %x", kind, body[:at])
		for body = body[at:]; ; {
			code, length := word(body)&0xffff, int(word(body)>>16)
			body = body[4:]
			if code == 0 {
				break
			}
			fmt.Fprintf(&line, " %d=%x", code, body[:length])
			if padding := body[length : (length+3)&^3]; len(bytes.Trim(padding, "\x00")) > 0 {
				t.Errorf("%s is padded with % x", line.String(), padding)
			}
			body = body[(length+3)&^3:]
		}
		if len(body) != 0 {
			t.Errorf("%s: %d bytes behind the options", line.String(), len(body))
		}
		lines, file = append(lines, line.String()), file[n:]
	}
	return lines
}

// The blocks of a file have the fields that draft-ietf-opsawg-pcapng gives them, in a reader that shares no code with the writer.
func TestBlocks(t *testing.T) {
	var file bytes.Buffer
	w, err := newWriter(&file, nd.DatapathInfo{Interface: "test0", Datapath: nd.DatapathUDP, MTU: 1500, Queues: 1}, 34)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0x0102030405060708)
	for _, p := range []nd.CapturedPacket{
		{Time: at, Frame: []byte{1, 2, 3, 4, 5}, Length: 9, Sent: true, Queue: 3},
		{Time: at, Frame: []byte{1, 2, 3, 4}, Length: 4, State: "open", ConnectionID: 0xab},
	} {
		if err := w.write(&p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.write(&nd.CapturedPacket{Frame: make([]byte, 2), Length: 1}); err == nil {
		t.Error("a packet that is longer than it was is written")
	}
	if err := w.finish(2, 5); err != nil {
		t.Fatal(err)
	}
	fixed := func(n int) func([]byte) int { return func([]byte) int { return n } }
	got := readBlocks(t, file.Bytes(), map[uint32]func([]byte) int{
		0x0a0d0d0a: fixed(16), 1: fixed(8), 5: fixed(12),
		6: func(body []byte) int { return 20 + int(binary.LittleEndian.Uint32(body[12:])+3)&^3 },
	})
	text := func(s string) string { return fmt.Sprintf("%x", s) }
	want := []string{
		"0xa0d0d0a 4d3c2b1a01000000ffffffffffffffff 4=" + text("ndxdp"),
		"0x1 0100000064000000 2=" + text("test0") + " 3=" + text("ndxdp, udp datapath, MTU 1500, 1 queues; packets of the transport, headers made anew") + " 9=09",
		"0x6 0000000004030201080706050500000009000000" + "0102030405000000 1=" + text("sent, no connection") + " 2=02000000 6=03000000",
		"0x6 0000000004030201080706050400000004000000" + "01020304 1=" + text("received, connection ab open") + " 2=01000000 6=00000000",
	}
	if len(got) != 5 || !slices.Equal(got[:4], want) {
		t.Fatalf("the file has the blocks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if last := got[4]; !strings.HasPrefix(last, "0x5 00000000") || !strings.HasSuffix(last, " 4=0700000000000000 5=0500000000000000") {
		t.Errorf("the statistics are %s", last)
	}
}

// A value that is too long for an option is truncated, and the block stays whole.
func TestLongOption(t *testing.T) {
	b := block{}.begin(packetBlock).option(optionComment, make([]byte, 1<<17)).end()
	got := readBlocks(t, b, map[uint32]func([]byte) int{packetBlock: func([]byte) int { return 0 }})
	if len(got) != 1 || len(got[0]) != len("0x6  1=")+2*maxOption {
		t.Errorf("%d blocks", len(got))
	}
}

// Wireshark reads the values that the writer wrote.
func TestWiresharkReadsTheFile(t *testing.T) {
	path := writePackets(t, peer4, 0, make([]byte, 60))
	names := []string{"frame.interface_name", "frame.interface_description", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.comment", "frame.packet_flags_direction"}
	got := dissect(t, path, names)
	if len(got) != 1 {
		t.Fatalf("%d packets", len(got))
	}
	for name, want := range map[string]string{
		"frame.interface_name": "test0", "frame.interface_description": "ndxdp, ", "frame.len": "102", "frame.cap_len": "102", "frame.comment": "received, no connection",
	} {
		if value := strings.Join(got[0][name], ""); !strings.HasPrefix(value, want) {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if d := got[0]["frame.packet_flags_direction"]; len(d) != 1 || d[0] != "1" {
		t.Errorf("the direction is %q, want 1, inbound", d)
	}
}
