package ndnet

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A Write during a ReadFrom that waits for its source leaves at once. Later bytes of the source follow it.
func TestWriteBesideReadFrom(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	must(t, client.SetWriteDeadline(time.Now().Add(patience)))
	r, w := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(client, r)
		copied <- err
	}()
	got := make([]byte, 6)
	for range 3 {
		_, err := w.Write([]byte("abc"))
		must(t, err)
		_, err = w.Write(nil) // ReadFrom has written the last bytes, and waits for more
		must(t, err)
		_, err = client.Write([]byte("def"))
		must(t, err)
		_, err = io.ReadFull(server, got)
		must(t, err)
		if string(got) != "abcdef" {
			t.Errorf("%q arrived", got)
		}
	}
	must(t, w.Close())
	must(t, <-copied)
}

// ReadFrom sends a whole file, and the beginning of a file.
func TestReadFromFiles(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, server.SetReadDeadline(time.Now().Add(patience)))
	want := bytes.Repeat([]byte("0123456789abcdef"), 40<<10)
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, want, 0o600))
	f, err := os.Open(name)
	must(t, err)
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(client, f, 1000)
		if err == nil {
			_, err = io.Copy(client, f)
		}
		sent <- errors.Join(err, f.Close(), client.CloseWrite())
	}()
	got, err := io.ReadAll(server)
	must(t, err)
	must(t, <-sent)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived of %d, or others", len(got), len(want))
	}
}

// One Write succeeds after this host has received the peer's Close, as over TCP, although no Read is called. Every later Write fails.
func TestOneWriteAfterTheEndSucceeds(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, server.Close())
	until(t, client, "the end has come", func() bool { return !client.cq.Empty() })
	if n, err := client.Write([]byte("one")); n != 3 || err != nil {
		t.Errorf("the first Write: %d, %v", n, err)
	}
	for range 2 {
		if _, err := client.Write([]byte("two")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write: %v", err)
		}
	}
}

// crypto/tls sends an alert in Close and returns the error of that Write. Close succeeds if the peer has closed first, as over TCP.
func TestCloseOfTLSAfterThePeer(t *testing.T) {
	server, client := identity(t)
	a, b := newPipe(t, Config{})
	closed := make(chan error, 1)
	go func() {
		c := tls.Server(b, server)
		_, err := c.Write([]byte("bye"))
		closed <- errors.Join(err, c.Close())
	}()
	c := tls.Client(a, client)
	got, err := io.ReadAll(c)
	must(t, err)
	must(t, <-closed)
	until(t, a, "the end has come", func() bool {
		a.takeResults()
		return a.gone
	})
	if err := c.Close(); err != nil || string(got) != "bye" {
		t.Errorf("%q, then Close: %v", got, err)
	}
}

// A Write that waits for room fails when the peer closes, and so do all Writes after it.
func TestWritesAfterAFailedOneFail(t *testing.T) {
	client, server := newPipe(t, Config{})
	failed := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, 64<<20))
		failed <- err
	}()
	until(t, client, "the Write waits for room", func() bool { return client.writing.taken && client.waiting.wantAll > 0 })
	must(t, server.Close())
	if err := <-failed; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the Write that waited: %v", err)
	}
	if _, err := client.Write([]byte("one")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the next Write: %v", err)
	}
}

// A peer that has only stopped reading fails the first Write: its program has asked for no more bytes, and may still send.
func TestWriteAfterCloseReadFails(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, server.CloseRead())
	until(t, client, "the flag has come", func() bool {
		client.takeResults()
		return client.gone
	})
	if _, err := client.Write([]byte("one")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write: %v", err)
	}
}
