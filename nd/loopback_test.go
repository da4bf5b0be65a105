package nd

import (
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// delivered finds the number of UDP datagrams in the kernel's counters of IPv4 and of IPv6.
var delivered = regexp.MustCompile(`(?m)^(?:Udp: |Udp6InDatagrams\s+)(\d+)`)

// datagrams returns how many UDP datagrams the kernel has delivered in a namespace.
func datagrams(t *testing.T, ns *netlab.Namespace) (n int) {
	t.Helper()
	must(t, ns.Do(func() error {
		for _, name := range []string{"snmp", "snmp6"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			if err != nil {
				return err
			}
			found := delivered.FindSubmatch(text)
			if found == nil {
				return fmt.Errorf("/proc/thread-self/net/%s has no number of UDP datagrams:\n%s", name, text)
			}
			more, err := strconv.Atoi(string(found[1]))
			if err != nil {
				return err
			}
			n += more
		}
		return nil
	}))
	return n
}

// An adapter of plain sockets connects to itself, on a loopback address and on an Ethernet address, and reports it. The packets do not pass
// the kernel.
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
			before := datagrams(t, pair.A)
			moveEverything(t, &rig{a: a, b: a})
			if n := datagrams(t, pair.A) - before; n != 0 {
				t.Errorf("%d packets passed the kernel", n)
			}
			if s := a.Stats(); s.Packets.In == 0 || s.Packets.LocalIn != s.Packets.In || s.Packets.LocalOut != s.Packets.Out {
				t.Errorf("%d of %d packets came and %d of %d left without the kernel", s.Packets.LocalIn, s.Packets.In, s.Packets.LocalOut, s.Packets.Out)
			}
		})
	}
}

// An AF_XDP socket receives only packets from its interface. An AF_XDP adapter still connects to itself, to other addresses of its
// machine and to loopback, over IPv4 and IPv6, and counts these packets.
func TestAFXDPConnectsToItself(t *testing.T) {
	for _, dp := range []Datapath{DatapathGeneric, DatapathNative, DatapathTCX} {
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
				before := datagrams(t, pair.A)
				moveEverything(t, &rig{a: a, b: a})
				if n := datagrams(t, pair.A) - before; n != 0 {
					t.Errorf("%d packets passed the kernel", n)
				}
				s := a.Stats()
				if s.Packets.LocalOut == 0 || s.Packets.LocalOut < s.Packets.Out || s.Packets.LocalIn < s.Packets.In {
					t.Errorf("%d of %d packets left without an interface, %d of %d came", s.Packets.LocalOut, s.Packets.Out, s.Packets.LocalIn, s.Packets.In)
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

// A second process opens an adapter on the address of an AF_XDP adapter and connects to it. No program of this machine has
// connected to it before. Both sides write.
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
			a.Stats() // orders the engine's writes behind ours, for the race detector
			p.Ask(t, "write 8")
			s := a.Stats() // orders our writes behind the engine's
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

// A Connect to a local address without an adapter is refused at once, also from an AF_XDP adapter, because the kernel reports that
// the port is closed.
func TestAFXDPIsRefusedByItsMachine(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500})
	e := newEnd(t, openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: DatapathGeneric}), 64)
	err := e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(loopback[0], 7000), ConnectParams{})
	wantStatus(t, "connect", err, ErrConnectionRefused)
}

// Connections of an adapter with itself begin on any of its queues. The first queue receives the packets that the kernel delivers,
// and the connections move there.
func TestAFXDPConnectsToItselfOnManyQueues(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{MTU: 1500, Queues: 4})
	a := openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr(), Datapath: DatapathGeneric})
	const rounds, most = 4, 64 // the first queue is random: that all of 64 connections begin on it has a probability of 4 to the power of -64
	for n := 0; n < rounds || n < most && a.Stats().Connections.Moved == 0; n++ {
		moveEverything(t, &rig{a: a, b: a})
	}
	if s := a.Stats(); s.Packets.LocalOut == 0 || s.Packets.LocalOut < s.Packets.Out || s.Packets.LocalIn < s.Packets.In || s.Connections.Moved == 0 {
		t.Errorf("%d of %d packets left by plain sockets, %d of %d came; %d connections moved", s.Packets.LocalOut, s.Packets.Out, s.Packets.LocalIn, s.Packets.In, s.Connections.Moved)
	}
}
