package datapath

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// The memory of a packet may begin at an odd address, so that its first page ends in the middle of a 16-bit word of the UDP
// checksum. A receiving kernel verifies the checksum over IPv6.
func TestPacketsFromOddAddressesHaveRightChecksums(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{IPv6: true, MTU: 9000, StaticNeighbours: true})
	conn := listenIn(t, pair.B, netip.AddrPortFrom(pair.Addr6B.Addr(), 0))
	const frames = 64
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: frames, TxFrames: frames, ArenaBytes: 4 * xdp.FrameSize})
	must(t, err)
	var sock *xdp.Socket
	must(t, pair.A.Do(func() (err error) {
		sock, err = xdp.Open(umem, xdp.Config{
			Ifindex: pair.IfindexA, Mode: xdp.ModeCopy, MultiBuffer: true, RxRing: 32, FillRing: 32, TxRing: 32, CompletionRing: 32, RxFrames: frames, TxFrames: frames,
		})
		return err
	}))
	t.Cleanup(func() { must(t, errors.Join(sock.Close(), umem.Close())) })
	q := &queue{device: &xdpDevice{umem: umem, arena: newArena(umem)}, sock: sock, paths: make([]path, 1)}
	from := wire.EndpointFrom(netip.AddrPortFrom(pair.Addr6A.Addr(), portA))
	to := wire.EndpointFrom(conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort())
	over := q.newPath(path{header: wire.NewFrameTemplate([6]byte(pair.MACA), [6]byte(pair.MACB), from, to)})
	for i := range umem.Arena() {
		umem.Arena()[i] = byte(i * 7)
	}
	for _, at := range []int{0, 1, xdp.FrameSize - 1} {
		packet := fromArena(t, q, at, 2*xdp.FrameSize)
		packet.Path = over
		var sent []byte
		for i := range packet.N {
			sent = append(sent, packet.Frags[i].Data...)
		}
		q.Transmit([]provider.TxPacket{packet})
		got := make([]byte, 9000)
		must(t, conn.SetReadDeadline(time.Now().Add(long)))
		if n, err := conn.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
			t.Fatalf("memory at %d: %d bytes came of %d: %v", at, n, len(sent), err)
		}
	}
}

// fromArena makes a packet of n bytes in the arena, as the engine does: a header in a frame, and the bytes page by page.
func fromArena(t *testing.T, q *queue, at, n int) (p provider.TxPacket) {
	t.Helper()
	if q.Frames(p.Frags[:1]) != 1 {
		t.Fatal("no frames")
	}
	p.N, p.Len = 1, wire.BaseHeaderLen+n
	p.Frags[0].Data = p.Frags[0].Data[provider.Headroom:][:wire.BaseHeaderLen]
	for n > 0 {
		size := min(n, xdp.FrameSize-at%xdp.FrameSize)
		p.Frags[p.N] = provider.Frag{Data: q.device.arena.bytes[at:][:size], ID: q.device.arena.base + uint64(at)}
		at, n = at+size, n-size
		p.N++
	}
	return p
}
