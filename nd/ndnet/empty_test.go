package ndnet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// tcpPipe is a connection of package net over loopback.
func tcpPipe(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// halfCloser has the methods that TCP connections and ours have in common.
type halfCloser interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// sameAs returns which of the well-known errors err is.
func sameAs(err error) error {
	for _, known := range []error{net.ErrClosed, os.ErrDeadlineExceeded, syscall.EPIPE, io.EOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

// A Read into an empty buffer and an empty Write fail in the same cases, and with the same errors, as on a TCP connection. The test
// compares both.
func TestEmptyCallsAreTCPs(t *testing.T) {
	readsEnd := func(t *testing.T, c halfCloser) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("no end: %v", err)
		}
	}
	past := time.Unix(1, 0)
	for name, bring := range map[string]func(t *testing.T, c, peer halfCloser){
		"open":                    func(*testing.T, halfCloser, halfCloser) {},
		"with bytes to read":      func(t *testing.T, _, peer halfCloser) { _, err := peer.Write([]byte("x")); must(t, err) },
		"past both deadlines":     func(t *testing.T, c, _ halfCloser) { must(t, c.SetDeadline(past)) },
		"past its read deadline":  func(t *testing.T, c, _ halfCloser) { must(t, c.SetReadDeadline(past)) },
		"past its write deadline": func(t *testing.T, c, _ halfCloser) { must(t, c.SetWriteDeadline(past)) },
		"with deadlines to come":  func(t *testing.T, c, _ halfCloser) { must(t, c.SetDeadline(time.Now().Add(time.Hour))) },
		"after the peer's end":    func(t *testing.T, c, peer halfCloser) { must(t, peer.CloseWrite()); readsEnd(t, c) },
		"past both, after the end": func(t *testing.T, c, peer halfCloser) {
			must(t, peer.CloseWrite())
			readsEnd(t, c)
			must(t, c.SetDeadline(past))
		},
		"after CloseRead":        func(t *testing.T, c, _ halfCloser) { must(t, c.CloseRead()) },
		"after CloseWrite":       func(t *testing.T, c, _ halfCloser) { must(t, c.CloseWrite()) },
		"closed":                 func(t *testing.T, c, _ halfCloser) { must(t, c.Close()) },
		"closed past a deadline": func(t *testing.T, c, _ halfCloser) { must(t, c.SetDeadline(past)); must(t, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			tcp, tcpPeer := tcpPipe(t)
			ours, peer := newPipe(t, Config{})
			bring(t, tcp, tcpPeer)
			bring(t, ours, peer)
			for what, call := range map[string]func(c halfCloser) (int, error){
				"Read":  func(c halfCloser) (int, error) { return c.Read(nil) },
				"Write": func(c halfCloser) (int, error) { return c.Write(nil) },
			} {
				want, wantErr := call(tcp)
				if n, err := call(ours); n != want || sameAs(err) != sameAs(wantErr) {
					t.Errorf("%s: %d, %v; TCP has %d, %v", what, n, err, want, wantErr)
				}
			}
		})
	}
}

// If an empty Read waits behind another Read whose deadline passes, the empty Read does not fail, as on a TCP connection.
func TestEmptyReadBehindAnother(t *testing.T) {
	client, _ := newPipe(t, Config{})
	client.mu.Lock()
	must(t, client.reading.take(never))
	client.mu.Unlock()
	read := make(chan error, 1)
	go func() {
		_, err := client.Read(nil)
		read <- err
	}()
	must(t, client.SetReadDeadline(time.Unix(1, 0)))
	client.mu.Lock()
	client.reading.give()
	client.mu.Unlock()
	if err := ends(t, "the Read", read); err != nil {
		t.Error(err)
	}
}
