package ndcapture

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/wire"
)

// locked is a buffer that several goroutines write to.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// framesOf returns the frames of a capture.
func framesOf(t testing.TB, capture []byte) (frames [][]byte) {
	t.Helper()
	r := &reader{from: bufio.NewReader(bytes.NewReader(capture))}
	for {
		kind, err := r.next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		if frame, _, ok := r.frame(); kind == packetBlock && ok {
			frames = append(frames, bytes.Clone(frame))
		}
	}
}

// packetsOf returns the ND packets of a capture.
func packetsOf(t testing.TB, capture []byte) (packets [][]byte) {
	t.Helper()
	for _, frame := range framesOf(t, capture) {
		var f wire.Frame
		if d := wire.ParseFrame(frame, len(frame), &f); d != wire.DropNone {
			t.Fatalf("a frame is dropped: %v, % x", d, frame)
		}
		packets = append(packets, frame[f.Offset:][:f.Length])
	}
	return packets
}

// encrypted records both ends of an encrypted connection, and returns the capture and the key log.
func encrypted(t *testing.T) (capture []byte, keys string, port uint16) {
	port = netlabtest.FreePort(t)
	a, b := loopback(t, port), loopback(t, port)
	var log locked
	dialer, listener := testhelp.NewAuthority(t).Mutual()
	dialer.KeyLogWriter, dialer.ServerName = &log, "node7" // the certificate has none of our addresses
	files, recs := recordBoth(t, a, b)
	converse(t, a, b, dialer, listener)
	for _, r := range recs {
		if s, err := r.Stop(); err != nil || s.Lost+s.Skipped > 0 {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	return slices.Concat(files[0].Bytes(), files[1].Bytes()), log.String(), port
}

// TestDecryptedConversation: every packet of a connection with a real TLS handshake opens, in the captures of both ends, and both decoders
// read it. The times and comments of packets stay.
func TestDecryptedConversation(t *testing.T) {
	capture, keys, port := encrypted(t)
	sealed := 0
	for _, b := range packetsOf(t, capture) {
		if wire.BaseHeader(b[:wire.BaseHeaderLen]).Secure() {
			sealed++
		}
	}
	var out bytes.Buffer
	sum, err := Decrypt(&out, bytes.NewReader(capture), strings.NewReader(keys))
	if err != nil || sum.Kept() != 0 || sum.Decrypted != uint64(sealed) || sealed < 100 {
		t.Fatalf("%+v of %d encrypted packets, %v", sum, sealed, err)
	}
	for _, b := range packetsOf(t, out.Bytes()) {
		if f, d := decode(b); d != wire.DropNone || f["ndxdp.flags.secure"][0] != "0" {
			t.Errorf("a packet is dropped: %v, % x", d, b[:min(len(b), 100)])
		}
	}
	path := filepath.Join(t.TempDir(), "plain.pcapng")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"frame.comment", "_ws.malformed", "_ws.lua.error", "ndxdp.unknown", "ndxdp.crc.good", "ndxdp.op.code", "ndxdp.ctl.code"}
	packets := dissect(t, path, names, "-o", "ndxdp.crc:TRUE", "-o", fmt.Sprint("ndxdp.port:", port), "-o", "ip.check_checksum:TRUE")
	if uint64(len(packets)) != sum.Packets {
		t.Fatalf("tshark saw %d packets of %d", len(packets), sum.Packets)
	}
	seen, comments := map[string]bool{}, 0
	for i, p := range packets {
		if p["_ws.malformed"] != nil || p["_ws.lua.error"] != nil || p["ndxdp.unknown"] != nil || !slices.Equal(p["ndxdp.crc.good"], []string{"1"}) {
			t.Errorf("packet %d: %v", i, p)
		}
		for _, code := range slices.Concat(p["ndxdp.op.code"], p["ndxdp.ctl.code"]) {
			seen[code] = true
		}
		comment := strings.Join(p["frame.comment"], "; ")
		if !strings.HasPrefix(comment, "sent") && !strings.HasPrefix(comment, "received") {
			t.Errorf("packet %d has lost its comment: %q", i, comment)
		}
		if strings.Contains(comment, "decrypted, generation ") {
			comments++
		}
	}
	if comments != sealed {
		t.Errorf("%d packets have the comment, of %d", comments, sealed)
	}
	for _, op := range []wire.Opcode{wire.OpWrite, wire.OpReadReq, wire.OpReadResp, wire.OpSend, wire.CtlREQ, wire.CtlSHAKE, wire.CtlREP, wire.CtlDREQ} {
		if !seen[fmt.Sprint(uint8(op))] {
			t.Errorf("no packet has %v", op)
		}
	}
}

// A capture that begins after the handshake, or whose connection is not in the key log, is copied, and each packet has its reason.
func TestDecryptWithoutTheHandshake(t *testing.T) {
	capture, keys, _ := encrypted(t)
	_, other, _ := encrypted(t)
	var out bytes.Buffer
	sum, err := Decrypt(&out, bytes.NewReader(capture), strings.NewReader(other))
	if err != nil || sum.NoSecret == 0 || sum.NoSecret != sum.Kept() || sum.Decrypted != 0 || !slices.EqualFunc(framesOf(t, capture), framesOf(t, out.Bytes()), bytes.Equal) {
		t.Errorf("with another key log: %+v, %v", sum, err)
	}
	late := without(t, capture, func(b []byte) bool { return !wire.BaseHeader(b[:wire.BaseHeaderLen]).Secure() })
	out.Reset()
	sum, err = Decrypt(&out, bytes.NewReader(late), strings.NewReader(keys))
	if err != nil || sum.NoHandshake == 0 || sum.NoHandshake != sum.Packets || !slices.EqualFunc(framesOf(t, late), framesOf(t, out.Bytes()), bytes.Equal) {
		t.Errorf("without the handshake: %+v, %v", sum, err)
	}
}

// without returns a capture without some of its packets.
func without(t *testing.T, capture []byte, leave func(b []byte) bool) (rest []byte) {
	r := &reader{from: bufio.NewReader(bytes.NewReader(capture))}
	for {
		kind, err := r.next()
		if errors.Is(err, io.EOF) {
			return rest
		}
		if err != nil {
			t.Fatal(err)
		}
		var f wire.Frame
		frame, length, ok := r.frame()
		if kind == packetBlock && ok && wire.ParseFrame(frame, length, &f) == wire.DropNone && leave(frame[f.Offset:]) {
			continue
		}
		rest = append(rest, r.block...)
	}
}

// Each refusal says what to give instead.
func TestDecryptRefuses(t *testing.T) {
	m := newMade(t, tls.TLS_AES_128_GCM_SHA256, peer4)
	capture, keys := m.capture(m.seal(server, 1, 5, wire.BaseFields{})), m.log()
	for name, c := range map[string]struct{ capture, keys, says string }{
		"pcap":           {"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00", keys, "editcap -F pcapng"},
		"empty":          {"", keys, "editcap -F pcapng"},
		"no key log":     {capture, "hello\n", "KeyLogWriter"},
		"TLS 1.2":        {capture, "CLIENT_RANDOM " + strings.Repeat("00", 32) + " " + strings.Repeat("00", 48), "KeyLogWriter"},
		"short block":    {capture[:12] + "\x00", keys, "unexpected EOF"},
		"long block":     {"\x0a\x0d\x0d\x0a\x10\x00\x00\x70\x4d\x3c\x2b\x1a", keys, "damaged"},
		"half the block": {capture[:len(capture)-6], keys, "unexpected EOF"},
	} {
		sum, err := Decrypt(io.Discard, strings.NewReader(c.capture), strings.NewReader(c.keys))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
	broken := errors.New("the disk is full")
	if _, err := Decrypt(failing{broken}, strings.NewReader(capture), strings.NewReader(keys)); !errors.Is(err, broken) {
		t.Errorf("the writer's error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
