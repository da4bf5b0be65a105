//go:build !nonats

package main

import (
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// The NATS server of the version in go.mod accepts a listener.
func TestNATSListener(t *testing.T) {
	s, err := server.NewServer(&server.Options{NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := setNATSListener(s, l); err != nil {
		t.Fatal(err)
	}
	if s.Addr() != l.Addr() {
		t.Errorf("the server listens on %v, not on %v", s.Addr(), l.Addr())
	}
}
