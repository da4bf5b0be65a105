package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

var (
	src = wire.EndpointFrom(netip.MustParseAddrPort("192.0.2.1:50000"))
	dst = wire.EndpointFrom(netip.MustParseAddrPort("192.0.2.2:14791"))
)

// pieces splits b into up to three parts.
func pieces(rng *rand.Rand, b []byte) (out []provider.Frag) {
	for range 2 {
		n := rng.IntN(len(b) + 1)
		out = append(out, provider.Frag{Data: b[:n]})
		b = b[n:]
	}
	return append(out, provider.Frag{Data: b})
}

// payload is a packet of size bytes that contains its number and length.
func payload(number, size int) []byte {
	b := bytes.Repeat([]byte{byte(number)}, max(size, 8))
	binary.BigEndian.PutUint32(b, uint32(number))
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)))
	return b
}

func ended() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(io.EOF)
	return ctx
}

// TestRingAgainstQueue compares a ring with a list of the packets that fitted, through many wrap-arounds.
func TestRingAgainstQueue(t *testing.T) {
	const snap = 3000
	rng := rand.New(rand.NewPCG(3, 4))
	f := NewFeed(Config{Snap: snap, Bytes: minBytes, Epoch: time.Unix(100, 0), Origin: 50}, 1)
	var want [][]byte
	var p Packet
	used, lost := 0, 0
	for i := range 20_000 {
		if rng.IntN(2) == 0 || i > 10_000 && rng.IntN(3) > 0 {
			b := payload(i, rng.IntN(6000))
			f.Tap(0).Packet(&provider.TapPacket{At: clock.Time(50 + i), Src: src, Dst: dst, Len: len(b), Pieces: pieces(rng, b)})
			if kept := min(len(b), snap); used+kept <= minBytes && len(want) < minBytes/bytesPerSlot {
				used += kept
				want = append(want, b)
			} else {
				lost++
			}
			continue
		}
		err := f.Next(ended(), &p)
		if len(want) == 0 {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("packet %d: %v from an empty ring", i, err)
			}
			continue
		}
		b := want[0]
		want = want[1:]
		kept := min(len(b), snap)
		used -= kept
		if err != nil || p.Length != 42+len(b) || !bytes.Equal(p.Frame[42:], b[:kept]) {
			t.Fatalf("packet %d: %v, %d bytes, %x", i, err, p.Length, p.Frame[:50])
		}
		if number := binary.BigEndian.Uint32(b); !p.Time.Equal(time.Unix(100, int64(number))) {
			t.Fatalf("packet %d has the time %v", number, p.Time)
		}
	}
	if f.Lost() != uint64(lost) || lost == 0 {
		t.Errorf("%d packets lost, want %d", f.Lost(), lost)
	}
}

// TestFeedMergesByTime: packets of several engines arrive in the order of their times.
func TestFeedMergesByTime(t *testing.T) {
	f := NewFeed(Config{Bytes: minBytes}, 3)
	for i := range 60 {
		b := payload(i, 40)
		f.Tap(i % 3).Packet(&provider.TapPacket{At: clock.Time(i), Src: src, Dst: dst, Len: len(b), Pieces: []provider.Frag{{Data: b}}})
	}
	var p Packet
	for i := range 60 {
		if err := f.Next(ended(), &p); err != nil || binary.BigEndian.Uint32(p.Frame[42:]) != uint32(i) || p.Queue != i%3 {
			t.Fatalf("packet %d: %v, queue %d, %x", i, err, p.Queue, p.Frame[42:46])
		}
	}
}

// TestFeedUnderLoad: engines write while the reader sleeps and wakes. Each packet arrives whole and once, or is counted.
func TestFeedUnderLoad(t *testing.T) {
	const engines, each = 4, 20_000
	f := NewFeed(Config{Bytes: minBytes}, engines)
	ctx, end := context.WithCancelCause(context.Background())
	var all sync.WaitGroup
	for e := range engines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(e)))
			for i := range each {
				b := payload(i, rng.IntN(300))
				f.Tap(e).Packet(&provider.TapPacket{Src: src, Dst: dst, Len: len(b), Pieces: pieces(rng, b)})
			}
		})
	}
	go func() {
		all.Wait()
		end(io.EOF)
	}()
	var p Packet
	var err error
	got, last := 0, [engines]int{-1, -1, -1, -1}
	for err = f.Next(ctx, &p); err == nil; err = f.Next(ctx, &p) {
		b := p.Frame[42:]
		number := int(binary.BigEndian.Uint32(b))
		if !bytes.Equal(b, payload(number, int(binary.BigEndian.Uint32(b[4:])))) || number <= last[p.Queue] {
			t.Fatalf("packet %d of engine %d after %d: %x", number, p.Queue, last[p.Queue], b)
		}
		last[p.Queue] = number
		got++
	}
	if !errors.Is(err, io.EOF) || uint64(got)+f.Lost() != engines*each || got == 0 {
		t.Errorf("%v after %d packets, %d lost, of %d", err, got, f.Lost(), engines*each)
	}
}

// TestFramesAreOnesThatTheParserTakes: reconstructed headers have the addresses and fields of the packet, over both families.
func TestFramesAreOnesThatTheParserTakes(t *testing.T) {
	src6 := wire.EndpointFrom(netip.MustParseAddrPort("[2001:db8::1]:50000"))
	dst6 := wire.EndpointFrom(netip.MustParseAddrPort("[2001:db8::2]:14791"))
	ours, theirs := [6]byte{2, 1}, [6]byte{2, 2}
	f := NewFeed(Config{Bytes: minBytes, MAC: ours}, 1)
	for _, c := range []provider.TapPacket{
		{Src: src, Dst: dst, MAC: theirs},
		{Src: src, Dst: dst, MAC: theirs, Sent: true},
		{Src: src6, Dst: dst6, MAC: theirs},
		{Src: src6, Dst: dst6, MAC: theirs, Sent: true},
	} {
		b := payload(1, 101)
		c.Len, c.Pieces = len(b), []provider.Frag{{Data: b}}
		f.Tap(0).Packet(&c)
		var p Packet
		if err := f.Next(ended(), &p); err != nil {
			t.Fatal(err)
		}
		from := theirs
		if c.Sent {
			from = ours
		}
		var h wire.Frame
		if d := wire.ParseFrame(p.Frame, p.Length, &h); d != wire.DropNone || h.Src != c.Src || h.Dst != c.Dst ||
			h.SrcMAC != from || h.Length != len(b) || !bytes.Equal(p.Frame[h.Offset:], b) {
			t.Errorf("%v, frame %+v of %+v", d, h, c)
		}
	}
}

// TestTapAllocatesNothing: the engine's side allocates nothing, with and without room in the ring.
func TestTapAllocatesNothing(t *testing.T) {
	f := NewFeed(Config{Bytes: minBytes}, 1)
	b := payload(1, 1000)
	p := provider.TapPacket{Src: src, Dst: dst, Len: len(b), Pieces: []provider.Frag{{Data: b}}}
	if n := testing.AllocsPerRun(1000, func() { f.Tap(0).Packet(&p) }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
	if f.Lost() == 0 {
		t.Error("nothing was lost: the drop path was not measured")
	}
}
