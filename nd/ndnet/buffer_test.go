package ndnet

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// Data from registered memory arrive as written, between bytes that are copied. The memory may be changed as soon as Write returns.
func TestRegisteredMemory(t *testing.T) {
	n := networks(t, Config{MaxBuffer: 64 << 10})
	client, server, stop, err := pipe(n)
	must(t, err)
	defer stop()
	allocated, err := n[0].AllocateBuffer(300 << 10)
	must(t, err)
	defer allocated.Close()
	registered, err := n[0].RegisterBuffer(make([]byte, 200<<10))
	must(t, err)
	defer registered.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	want, got := sha256.New(), sha256.New()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(got, server)
		read <- err
	}()
	for i := range 40 {
		buf := [][]byte{allocated.Bytes(), registered.Bytes(), make([]byte, 100)}[i%3]
		from := rng.IntN(len(buf) / 2)
		buf = buf[from:]
		for j := range buf {
			buf[j] = byte(rng.Uint32())
		}
		want.Write(buf)
		if n, err := client.Write(buf); n != len(buf) || err != nil {
			t.Fatal(n, err)
		}
	}
	must(t, client.(*Conn).CloseWrite())
	must(t, <-read)
	if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		t.Error("other bytes arrived than were written")
	}
	if passed := client.(*Conn).send.pass; passed < 40*50<<10 {
		t.Errorf("%d bytes left the memory without a copy", passed)
	}
}

// If the deadline of a Write from registered memory passes, Write returns how many bytes have arrived, and the peer reads exactly
// these.
func TestRegisteredMemoryDeadline(t *testing.T) {
	n := networks(t, Config{MaxBuffer: minMaxBuffer})
	client, server, stop, err := pipe(n)
	must(t, err)
	defer stop()
	b, err := n[0].AllocateBuffer(1 << 20)
	must(t, err)
	defer b.Close()
	must(t, client.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	took, err := client.Write(b.Bytes())
	if !errors.Is(err, os.ErrDeadlineExceeded) || took > 2*minMaxBuffer {
		t.Errorf("%d bytes, %v", took, err)
	}
	must(t, client.Close())
	got, err := io.Copy(io.Discard, server)
	if err != nil || got != int64(took) {
		t.Errorf("%d bytes arrived of %d, %v", got, took, err)
	}
}

// A Write that begins anywhere in a registered buffer is recognized, and other memory is not.
func TestBuffersFind(t *testing.T) {
	n := networks(t, Config{})[0]
	mem := make([]byte, 3000)
	b, err := n.RegisterBuffer(mem[1000:2000])
	must(t, err)
	for _, c := range []struct {
		from, to int
		want     bool
	}{{1000, 2000, true}, {1500, 2000, true}, {1000, 1001, true}, {999, 1500, false}, {1500, 2001, false}, {0, 10, false}, {2000, 2010, false}} {
		if got := n.buffers.holding(mem[c.from:c.to]) != nil; got != c.want {
			t.Errorf("bytes %d to %d are found: %v", c.from, c.to, got)
		}
	}
	must(t, b.Close())
	must(t, b.Close())
	if n.buffers.holding(mem[1000:2000]) != nil {
		t.Error("found after Close")
	}
}
