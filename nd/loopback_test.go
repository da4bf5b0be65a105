package nd

import (
	"hash/crc32"
	"net/netip"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// An adapter on plain sockets reaches itself, on a loopback address and on one of an Ethernet, and says so.
func TestUDPConnectsToItself(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	for _, addr := range []netip.Addr{loopback[0], pair.AddrA.Addr()} {
		t.Run(addr.String(), func(t *testing.T) {
			a := openIn(t, pair.A, AdapterConfig{Address: addr, Datapath: DatapathUDP})
			info, err := a.Query()
			must(t, err)
			if info.Flags&AdapterLoopbackConnections == 0 {
				t.Errorf("flags %#x: it does not say so", uint32(info.Flags))
			}
			moveEverything(t, &rig{a: a, b: a})
		})
	}
}

// An adapter on AF_XDP, whose socket sees only what the interface carries, reaches itself, other addresses of its machine and loopback, over IPv4 and IPv6,
// and counts what went there.
func TestAFXDPConnectsToItself(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative} {
		for _, ipv6 := range []bool{false, true} {
			name, loopback := dp.String(), loopback[0]
			if ipv6 {
				name, loopback = name+" IPv6", netip.IPv6Loopback()
			}
			t.Run(name, func(t *testing.T) {
				pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500, IPv6: ipv6})
				own := pair.AddrA.Addr()
				if ipv6 {
					own = pair.Addr6A.Addr()
				}
				a := openIn(t, pair.A, AdapterConfig{Address: own, Datapath: dp})
				info, err := a.Query()
				must(t, err)
				if info.Flags&AdapterLoopbackConnections == 0 {
					t.Errorf("flags %#x: it does not say so", uint32(info.Flags))
				}
				moveEverything(t, &rig{a: a, b: a})
				s := a.Stats()
				if s.Packets.LocalOut == 0 || s.Packets.LocalOut < s.Packets.Out || s.Packets.LocalIn < s.Packets.In {
					t.Errorf("%d of %d packets left by plain sockets, %d of %d came", s.Packets.LocalOut, s.Packets.Out, s.Packets.LocalIn, s.Packets.In)
				}
				for _, other := range []netip.Addr{own, loopback} {
					b := openIn(t, pair.A, AdapterConfig{Address: other, Datapath: DatapathUDP})
					moveEverything(t, &rig{a: a, b: b})
					moveEverything(t, &rig{a: b, b: a})
				}
			})
		}
	}
}

// A second process on the address of an adapter on AF_XDP connects to that one, which nobody on its own machine has spoken to before, and both write.
func TestAFXDPBesideAnotherProcess(t *testing.T) {
	program := netlabtest.Build(t, peerProgram)
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative} {
		t.Run(dp.String(), func(t *testing.T) {
			t.Parallel()
			pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
			a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: dp})
			p := joinPeer(t, a, pair.A, program, pair.AddrA.Addr(), DatapathAuto)
			mem := p.mr.Bytes()
			for i := range mem {
				mem[i] = byte(i*7 + i>>8)
			}
			sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(mem)), 10)
			p.writeAll(t, 8)
			if got := p.Ask(t, "sum"); got != sum {
				t.Errorf("the process has bytes of checksum %s, want %s", got, sum)
			}
			clear(mem)
			a.Stats() // the engine's writes are ordered behind ours, for the race detector
			p.Ask(t, "write 8")
			s := a.Stats() // and ours behind them
			if got := strconv.FormatUint(uint64(crc32.ChecksumIEEE(mem)), 10); got != sum {
				t.Errorf("here are bytes of checksum %s, want %s", got, sum)
			}
			if s.Packets.LocalIn == 0 || s.Packets.LocalIn < s.Packets.In || s.Packets.LocalOut < s.Packets.Out {
				t.Errorf("%d of %d packets came by plain sockets, %d of %d left", s.Packets.LocalIn, s.Packets.In, s.Packets.LocalOut, s.Packets.Out)
			}
			p.End(t)
		})
	}
}

// An address of the own machine without an adapter refuses at once, also from an adapter on AF_XDP: the kernel says that nobody has the port.
func TestAFXDPIsRefusedByItsMachine(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	e := newEnd(t, openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: DatapathGeneric}), 64)
	err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(loopback[0], 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrConnectionRefused)
}

// Connections of an adapter with itself are on any of its queues. The first one reads what the kernel brings, and they follow it there.
func TestAFXDPConnectsToItselfOnManyQueues(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500, Queues: 4})
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: DatapathGeneric})
	const rounds, most = 4, 64 // which queue is chance: that none of 64 begins on another one than the first is 4 to the power of -64
	for n := 0; n < rounds || n < most && a.Stats().Connections.Moved == 0; n++ {
		moveEverything(t, &rig{a: a, b: a})
	}
	if s := a.Stats(); s.Packets.LocalOut == 0 || s.Packets.LocalOut < s.Packets.Out || s.Packets.LocalIn < s.Packets.In || s.Connections.Moved == 0 {
		t.Errorf("%d of %d packets left by plain sockets, %d of %d came; %d connections moved", s.Packets.LocalOut, s.Packets.Out, s.Packets.LocalIn, s.Packets.In, s.Connections.Moved)
	}
}
