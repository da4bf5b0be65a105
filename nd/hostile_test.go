package nd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
)

// tap is a link that records the packets that it sends, without link, network and transport headers.
type tap struct {
	datapath.Port
	device datapath.Device
	mu     sync.Mutex
	sent   [][]byte
	from   uint16 // UDP source port of the last connection made
}

func (l *tap) Connect(local, remote provider.Endpoint) (provider.Path, error) {
	l.mu.Lock()
	l.from = local.Port
	l.mu.Unlock()
	return l.Port.Connect(local, remote)
}

func (l *tap) Transmit(pkts []provider.TxPacket) {
	l.mu.Lock()
	for i := range pkts {
		var packet []byte
		for j := range pkts[i].N {
			packet = append(packet, pkts[i].Frags[j].Data...)
		}
		l.sent = append(l.sent, packet)
	}
	l.mu.Unlock()
	l.Port.Transmit(pkts)
}

// last returns the newest packet that has contents.
func (l *tap) last(t *testing.T) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.sent) - 1; i >= 0; i-- {
		if !wire.BaseHeader(l.sent[i]).Control() {
			return bytes.Clone(l.sent[i])
		}
	}
	t.Fatal("no packet with contents was sent")
	return nil
}

// attack is a connection, and an attacker at the client's address that has seen the client's packets.
type attack struct {
	r              *rig
	tap            *tap
	client, server *end
	sock           *net.UDPConn // bound to the client's source port
	other          *net.UDPConn // bound to another port
}

func newAttack(t *testing.T) *attack {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := &attack{tap: &tap{}}
	a.r = &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, pair: pair}
	must(t, pair.A.Do(func() (err error) {
		a.tap.device, err = datapath.Open(plan.Config{Address: a.r.addr[0]})
		return err
	}))
	a.tap.Port = a.tap.device.Ports()[0]
	a.r.a = &Adapter{verbs: verbs.New(a.r.addr[0], provider.Config{UDPPort: verbs.DefaultUDPPort}, []datapath.Port{a.tap}, a.tap.device.Resolve)}
	a.r.a.verbs.Device = a.tap.device
	t.Cleanup(func() { must(t, a.r.a.Close()) })
	a.r.b = openIn(t, pair.B, AdapterConfig{Address: a.r.addr[1]})
	a.client, a.server = a.r.connect(t, 4096)
	a.sock, a.other = a.open(t, a.tap.from), a.open(t, 0)
	return a
}

func (a *attack) open(t *testing.T, port uint16) (c *net.UDPConn) {
	t.Helper()
	must(t, a.r.pair.A.Do(func() (err error) {
		c, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.r.addr[0], port)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.r.addr[1], verbs.DefaultUDPPort)))
		return err
	}))
	t.Cleanup(func() { c.Close() })
	return c
}

// seal computes the checksum again (PROTOCOL §3.4). The connection is new, so its full numbers are the truncated numbers with an
// upper half of zero.
func seal(packet []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	numbers := append(make([]byte, 4), packet[4:8]...)
	numbers = binary.BigEndian.AppendUint32(numbers, uint32(int16(binary.BigEndian.Uint16(packet[2:]))))
	sum := crc32.Update(crc32.Checksum(numbers, table), table, packet[:wire.CRCOffset])
	sum = crc32.Update(sum, table, packet[wire.BaseHeaderLen:])
	binary.BigEndian.PutUint32(packet[wire.CRCOffset:], sum)
	return packet
}

// works checks that the connection works, and that only the client's writes reached the server's memory.
func (a *attack) works(t *testing.T, memory []byte) {
	t.Helper()
	a.r.b.sync()
	if !bytes.Equal(a.server.mr.Bytes(), memory) {
		t.Fatal("the server's memory was written")
	}
	a.server.wantNoResult(t)
	a.client.wantNoResult(t)
	must(t, a.server.qp.Receive(50, nil))
	must(t, a.client.qp.Send(51, nil, 0))
	a.client.wantResult(t, 51, RequestSend, StatusSuccess)
	a.server.wantResult(t, 50, RequestReceive, StatusSuccess)
}

// forgery is a packet derived from a recorded one, and the reason under which it is dropped.
type forgery struct {
	name, drop string
	make       func(p []byte) []byte
}

// forgeries derives packets from a packet of one Write.
func forgeries(t *testing.T, seen []byte) []forgery {
	t.Helper()
	change := func(at int, with byte) func([]byte) []byte {
		return func(p []byte) []byte { p[at] ^= with; return p }
	}
	sealed := func(f func([]byte) []byte) func([]byte) []byte { return func(p []byte) []byte { return seal(f(p)) } }
	content, d := wire.ContentOffset(seen)
	if d != wire.DropNone {
		t.Fatal(d)
	}
	token := content + 4
	return []forgery{
		{"replayed", "duplicate", func(p []byte) []byte { return p }},
		{"empty", "not_nd", func(p []byte) []byte { return p[:0] }},
		{"cut in the header", "not_nd", func(p []byte) []byte { return p[:wire.BaseHeaderLen-1] }},
		{"cut after the header", "crc", func(p []byte) []byte { return p[:wire.BaseHeaderLen] }},
		{"cut in the operation", "crc", func(p []byte) []byte { return p[:content+14] }},
		{"cut in the payload", "crc", func(p []byte) []byte { return p[:len(p)-1] }},
		{"longer", "crc", func(p []byte) []byte { return append(p, 0) }},
		{"version 1", "version", change(0, 0x20)},
		{"version 2", "version", change(0, 0x10)},
		{"reserved type", "reserved", change(0, 4)},
		{"reserved flag", "reserved", change(1, 0x80)},
		{"piece at the beginning of its message", "reserved", change(0, 3)},
		{"flipped flag", "crc", change(1, byte(wire.FlagAckReq))},
		{"flipped number", "crc", change(7, 1)},
		{"flipped message", "crc", change(3, 1)},
		{"flipped offset", "crc", change(19, 1)},
		{"flipped payload", "crc", change(len(seen)-1, 1)},
		{"flipped token", "crc", change(token, 1)},
		{"flipped checksum", "crc", change(wire.CRCOffset+1, 1)},
		{"guessed id", "unknown_conn", change(9, 1)},
		{"guessed id, sealed", "unknown_conn", sealed(change(9, 1))},
		{"guessed slot, sealed", "unknown_conn", sealed(change(15, 1))},
		{"no id, sealed", "control", sealed(func(p []byte) []byte { clear(p[8:16]); return p })},
		{"message of long ago, sealed, wrong token", "duplicate", sealed(func(p []byte) []byte {
			binary.BigEndian.PutUint16(p[2:], binary.BigEndian.Uint16(p[2:])-10000)
			p[token] ^= 1
			return p
		})},
		{"acknowledges what was never sent, sealed", "ack_range", sealed(func(p []byte) []byte {
			p[1] |= byte(wire.FlagAck)
			ack := wire.Ack{Largest: binary.BigEndian.Uint32(p[4:]) + 1<<30, N: 1}
			block := ack.Append(nil)
			return slices.Insert(p[:wire.BaseHeaderLen:wire.BaseHeaderLen], wire.BaseHeaderLen, append(block, p[content:]...)...)
		})},
		{"old message, wrong token, sealed", "duplicate", sealed(change(token, 1))},
	}
}

// Every packet that is wrong in some field is counted under its reason, and changes nothing.
func TestHostilePackets(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	copy(a.client.mr.Bytes(), "a Write that an attacker saw")
	must(t, a.client.qp.Write(1, []SGE{a.client.mr.SGE(0, 28)}, a.server.mr.Address(), a.server.mr.RemoteToken(), 0))
	a.client.wantResult(t, 1, RequestWrite, StatusSuccess)
	seen := a.tap.last(t)
	a.r.b.sync()
	clear(a.server.mr.Bytes()[:28]) // so that a replay would be visible
	memory := bytes.Clone(a.server.mr.Bytes())
	for _, c := range forgeries(t, seen) {
		t.Run(c.name, func(t *testing.T) {
			before := a.r.b.Stats().Drops
			_, err := a.sock.Write(c.make(bytes.Clone(seen)))
			must(t, err)
			a.wantDrop(t, before, c.drop, 1)
			a.works(t, memory)
		})
	}
	t.Run("another source port", func(t *testing.T) {
		before := a.r.b.Stats().Drops
		_, err := a.other.Write(seen)
		must(t, err)
		a.wantDrop(t, before, "duplicate", 1) // its number is near enough to be accepted from any port, and its contents are old
		a.works(t, memory)
	})
}

// wantDrop waits until n more packets were dropped for this reason, and checks that no other reason counted any.
func (a *attack) wantDrop(t *testing.T, before map[string]uint64, reason string, n uint64) {
	t.Helper()
	eventually(t, "drop for "+reason, func() bool {
		now := a.r.b.Stats().Drops
		for r, count := range now {
			if r != reason && count != before[r] {
				t.Fatalf("dropped for %s, want %s", r, reason)
			}
		}
		return now[reason] == before[reason]+n
	})
}

// Noise, mutated packets, and old packets with another payload and a valid checksum do no harm.
func TestGarbage(t *testing.T) {
	t.Parallel()
	a := newAttack(t)
	must(t, a.client.qp.Write(1, []SGE{a.client.mr.SGE(0, 100)}, a.server.mr.Address(), a.server.mr.RemoteToken(), 0))
	a.client.wantResult(t, 1, RequestWrite, StatusSuccess)
	seen := a.tap.last(t)
	payload := len(seen) - 100
	a.r.b.sync()
	memory := bytes.Clone(a.server.mr.Bytes())
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		var p []byte
		switch i % 3 {
		case 0:
			p = make([]byte, rng.IntN(1400))
			for j := range p {
				p[j] = byte(rng.Uint32())
			}
		case 1:
			p = bytes.Clone(seen)
			for range 1 + rng.IntN(8) {
				p[rng.IntN(len(p))] ^= byte(1 << rng.IntN(8))
			}
		default: // valid, but old
			p = bytes.Clone(seen)
			for j := payload; j < len(p); j++ {
				p[j] = byte(rng.Uint32())
			}
			p = seal(p)
		}
		_, err := a.sock.Write(p)
		must(t, err)
	}
	a.works(t, memory)
	t.Log(fmt.Sprint(a.r.b.Stats().Drops))
}
