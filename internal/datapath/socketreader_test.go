package datapath

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// TestNoMemoryForASocket: packets that cannot be received for want of memory do not keep a sleeper awake.
func TestNoMemoryForASocket(t *testing.T) {
	network, err := udp.NewNetwork()
	must(t, err)
	defer network.Close()
	s, err := network.Open(udp.Config{Local: netip.MustParseAddrPort("127.0.0.1:0")})
	must(t, err)
	defer s.Close()
	port, err := s.Port()
	must(t, err)
	said := ""
	r := socketReader{socket: s, merged: new(atomic.Uint64), foreign: new(atomic.Uint64), frames: 1 << 40, fail: func(why string) { said = why }} // more than can be mapped
	c, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	must(t, err)
	defer c.Close()
	_, err = c.Write(make([]byte, wire.BaseHeaderLen))
	must(t, err)
	for end := time.Now().Add(patience); !r.waiting(); {
		if time.Now().After(end) {
			t.Fatal("no packet")
		}
	}
	if r.ready() || said == "" {
		t.Errorf("without memory it is ready, or says %q", said)
	}
	if r.waiting() || r.ready() {
		t.Error("it wakes sleepers for packets that it cannot take")
	}
	must(t, r.close())
}
