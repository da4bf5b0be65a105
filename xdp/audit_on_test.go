//go:build xdpdebug

package xdp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/xdp"
)

// TestAuditNamesTheFrame misuses frames in every way that the pools alone cannot detect.
func TestAuditNamesTheFrame(t *testing.T) {
	for name, misuse := range map[string]func(s *xdp.Socket, rx, tx uint64){
		"recycle twice":          func(s *xdp.Socket, rx, _ uint64) { s.Recycle(rx); s.Recycle(rx) },
		"free twice":             func(s *xdp.Socket, _, tx uint64) { s.FreeTx(tx); s.FreeTx(tx) },
		"send twice":             func(s *xdp.Socket, _, tx uint64) { send(s, tx); send(s, tx) },
		"send what is free":      func(s *xdp.Socket, _, tx uint64) { s.FreeTx(tx); send(s, tx) },
		"free what is sent":      func(s *xdp.Socket, _, tx uint64) { send(s, tx); s.FreeTx(tx) },
		"recycle what is sent":   func(s *xdp.Socket, rx, _ uint64) { send(s, rx); s.Recycle(rx) },
		"recycle what is filled": func(s *xdp.Socket, rx, _ uint64) { s.Recycle(rx); s.Refill(); s.Recycle(rx) },
	} {
		t.Run(name, func(t *testing.T) {
			_, s, k := openDetached(t, xdp.Config{}, testSizes)
			if err := k.Deliver(make([]byte, 60)); err != nil {
				t.Fatal(err)
			}
			var descs [1]xdp.Desc
			s.Receive(descs[:])
			tx, _ := s.AllocTx()
			rx := descs[0].Addr
			text := panicText(func() { misuse(s, rx, tx) })
			if !strings.Contains(text, fmt.Sprintf("frame %#x", rx&^4095)) && !strings.Contains(text, fmt.Sprintf("frame %#x", tx)) {
				t.Errorf("panic %q does not name the frame", text)
			}
			if !strings.Contains(text, "is in state") || !strings.Contains(text, "->") {
				t.Errorf("panic %q does not name the states", text)
			}
		})
	}
}

func send(s *xdp.Socket, addr uint64) { s.Transmit([]xdp.Desc{{Addr: addr, Len: 60}}) }

func panicText(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}
