package ndcapture

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// loopback opens an adapter on plain sockets, at an address of its own.
func loopback(t *testing.T, udpPort uint16) *nd.Adapter {
	t.Helper()
	a, err := nd.OpenAdapter(nd.AdapterConfig{Address: netlabtest.Loopback()[0], Datapath: nd.DatapathUDP, UDPPort: udpPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// converse connects two adapters, encrypted if there are TLS configurations. One writes and sends to the other and reads from it. Then they disconnect.
func converse(t *testing.T, a, b *nd.Adapter, dialer, listener *tls.Config) {
	t.Helper()
	ctx := t.Context()
	const rights = nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite
	l, err := nd.Listen(netip.AddrPortFrom(b.QueryAddressList()[0], 7000), nd.EndpointConfig{Adapter: b, Rights: rights, TLS: listener})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()
	at, err := l.Address()
	if err != nil {
		t.Fatal(err)
	}
	e, err := nd.Dial(ctx, at, nd.EndpointConfig{Adapter: a, TLS: dialer})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		e.QueuePair.Write(1, []nd.SGE{e.Memory.SGE(0, 300_000)}, e.Peer.Address, e.Peer.Token, 0),
		e.QueuePair.Read(2, []nd.SGE{e.Memory.SGE(0, 100_000)}, e.Peer.Address, e.Peer.Token, 0),
		e.QueuePair.Send(3, []nd.SGE{e.Memory.SGE(0, 100)}, nd.OpReadFence),
	)
	for range 3 {
		r, failed := e.Result(ctx)
		err = errors.Join(err, failed)
		if r.Status != nd.StatusSuccess {
			err = errors.Join(err, r.Status)
		}
	}
	if err = errors.Join(err, e.Disconnect(ctx), <-served); err != nil {
		t.Fatal(err)
	}
}

func serve(ctx context.Context, l *nd.EndpointListener) error {
	e, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	err = e.QueuePair.Receive(1, []nd.SGE{e.Memory.SGE(0, 4096)})
	_, failed := e.Result(ctx)
	return errors.Join(err, failed, e.Disconnect(ctx))
}

// TestRecordingOfAConversation records both sides of a connection, one section after the other, and reads the file with tshark.
// Every packet is there, none is malformed, and the comments have the transport's information.
func TestRecordingOfAConversation(t *testing.T) {
	port := netlabtest.FreePort(t)
	a, b := loopback(t, port), loopback(t, port)
	files, recs := recordBoth(t, a, b)
	converse(t, a, b, nil, nil)
	total := uint64(0)
	for i, adapter := range []*nd.Adapter{a, b} {
		before := adapter.Stats()
		s, err := recs[i].Stop()
		if err != nil || s.Lost+s.Skipped > 0 || s.Bytes != int64(files[i].Len()) {
			t.Errorf("side %d: %+v, %v, %d bytes", i, s, err, files[i].Len())
		}
		after := adapter.Stats() // a last acknowledgement may come at any time
		if least, most := before.Packets.In+before.Packets.Out, after.Packets.In+after.Packets.Out; s.Written < least || s.Written > most {
			t.Errorf("side %d wrote %d packets of %d to %d", i, s.Written, least, most)
		}
		total += s.Written
	}
	path := filepath.Join(t.TempDir(), "both.pcapng")
	if err := os.WriteFile(path, append(files[0].Bytes(), files[1].Bytes()...), 0o644); err != nil {
		t.Fatal(err)
	}
	names := []string{"frame.comment", "_ws.malformed", "_ws.lua.error", "ndxdp.unknown", "ndxdp.crc.good", "ndxdp.op.code", "ndxdp.ctl.code"}
	packets := dissect(t, path, names, "-o", "ndxdp.crc:TRUE", "-o", "ndxdp.port:"+netip.AddrPortFrom(netip.IPv4Unspecified(), port).String()[8:])
	if uint64(len(packets)) != total {
		t.Fatalf("tshark saw %d packets of %d", len(packets), total)
	}
	seen := map[string]bool{}
	for i, p := range packets {
		if p["_ws.malformed"] != nil || p["_ws.lua.error"] != nil || p["ndxdp.unknown"] != nil || !slices.Equal(p["ndxdp.crc.good"], []string{"1"}) {
			t.Errorf("packet %d: %v", i, p)
		}
		for _, code := range append(p["ndxdp.op.code"], p["ndxdp.ctl.code"]...) {
			seen[code] = true
		}
		comment := strings.Join(p["frame.comment"], "")
		if direction, _, ok := strings.Cut(comment, ","); !ok || direction != "sent" && direction != "received" {
			t.Errorf("packet %d has the comment %q", i, comment)
		}
		seen[comment[strings.LastIndex(comment, " ")+1:]] = true
	}
	for _, want := range []string{"1", "2", "5", "6", "32", "35", "37", "39", "open", "req_sent", "rep_sent"} {
		if !seen[want] {
			t.Errorf("no packet with the opcode or state %s: %v", want, seen)
		}
	}
}

// TestStartCaptureTwice tests the calls that StartCapture and Start refuse.
func TestStartCaptureTwice(t *testing.T) {
	a := loopback(t, netlabtest.FreePort(t))
	r, err := Start(a, io.Discard, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(a, io.Discard, Config{}); !errors.Is(err, nd.ErrDeviceBusy) {
		t.Errorf("a second recording: %v", err)
	}
	for range 2 {
		if _, err := r.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if _, err := a.StartCapture(nd.CaptureConfig{SnapLength: -1}); !errors.Is(err, nd.ErrInvalidParameter) {
		t.Errorf("a negative snap length: %v", err)
	}
	r, err = Start(a, io.Discard, Config{})
	if err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.done // the recording ends with the adapter
	if _, err := r.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := Start(a, io.Discard, Config{}); !errors.Is(err, nd.ErrDeviceRemoved) {
		t.Errorf("on a closed adapter: %v", err)
	}
}

// brokenDisk fails after some bytes.
type brokenDisk struct{ left int }

var errFull = errors.New("no space left")

func (d *brokenDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestRecordingBounds: the limit on the file is respected, and the error of a writer is reported. Neither harms the connection.
func TestRecordingBounds(t *testing.T) {
	port := netlabtest.FreePort(t)
	a, b := loopback(t, port), loopback(t, port)
	var file bytes.Buffer
	bounded, err := Start(a, &file, Config{MaxBytes: 50_000, CaptureConfig: nd.CaptureConfig{SnapLength: 100}})
	if err != nil {
		t.Fatal(err)
	}
	broken, err := Start(b, &brokenDisk{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		converse(t, a, b, nil, nil)
	}
	s, err := bounded.Stop()
	if err != nil || s.Skipped == 0 || s.Written == 0 || file.Len() > 50_000+1000 || file.Len() < 40_000 {
		t.Errorf("%+v, %v, %d bytes", s, err, file.Len())
	}
	if s, err = broken.Stop(); !errors.Is(err, errFull) {
		t.Errorf("%+v, %v", s, err)
	}
}

// endless is a source that has packets until it is stopped, and then one more.
type endless struct {
	frame []byte
	stops int
}

func (e *endless) Next(p *nd.CapturedPacket) error {
	switch e.stops {
	case 0:
	case 1:
		e.stops++
	default:
		return io.EOF
	}
	*p = nd.CapturedPacket{Frame: e.frame, Length: len(e.frame)}
	return nil
}

func (e *endless) Lost() uint64 { return 3 }

func (e *endless) Stop() { e.stops = max(e.stops, 1) }

// TestCopyEndsWithItsWriter: if the writer fails, its source is stopped, and the packets that the source still had are counted.
func TestCopyEndsWithItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, so nothing is flushed before the buffer is full
		s, err := Copy(&brokenDisk{left: 1 << 20}, nd.DatapathInfo{}, &endless{frame: make([]byte, 1500)}, Config{})
		if !errors.Is(err, errFull) || s.Written == 0 || s.Skipped != 2 || s.Lost != 3 || s.Bytes != 1<<20 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// quiet is a source that has one packet, and then none until it is stopped.
type quiet struct {
	frame []byte
	told  bool
	end   chan struct{}
	stop  sync.Once
}

func (q *quiet) Next(p *nd.CapturedPacket) error {
	if q.told {
		<-q.end
		return io.EOF
	}
	q.told = true
	*p = nd.CapturedPacket{Frame: q.frame, Length: len(q.frame)}
	return nil
}

func (q *quiet) Lost() uint64 { return 0 }

func (q *quiet) Stop() { q.stop.Do(func() { close(q.end) }) }

// TestCopyIsLively: a reader of the output sees a packet soon, without waiting for many more. If the writer fails meanwhile, the
// copy ends.
func TestCopyIsLively(t *testing.T) {
	frame := bytes.Repeat([]byte("packet"), 20)
	synctest.Test(t, func(t *testing.T) {
		seen, w := io.Pipe()
		source := &quiet{frame: frame, end: make(chan struct{})}
		copied := make(chan error, 1)
		go func() {
			s, err := Copy(w, nd.DatapathInfo{}, source, Config{})
			if s.Written != 1 {
				t.Errorf("%+v", s)
			}
			copied <- errors.Join(err, w.Close())
		}()
		begin := time.Now()
		var got []byte
		for b := make([]byte, 4096); !bytes.Contains(got, frame); {
			n, err := seen.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b[:n]...)
		}
		if took := time.Since(begin); took > 2*flushEvery {
			t.Errorf("it was seen after %v", took)
		}
		source.Stop()
		if _, err := io.Copy(io.Discard, seen); err != nil {
			t.Error(err)
		}
		if err := <-copied; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if _, err := Copy(&brokenDisk{}, nd.DatapathInfo{}, &quiet{frame: frame, end: make(chan struct{})}, Config{}); !errors.Is(err, errFull) {
			t.Errorf("the writer failed, and Copy returned %v", err)
		}
	})
}

// recordBoth captures two adapters.
func recordBoth(t *testing.T, a, b *nd.Adapter) (files *[2]bytes.Buffer, recs [2]*Recording) {
	t.Helper()
	files = new([2]bytes.Buffer)
	for i, adapter := range []*nd.Adapter{a, b} {
		var err error
		if recs[i], err = Start(adapter, &files[i], Config{}); err != nil {
			t.Fatal(err)
		}
	}
	return files, recs
}
