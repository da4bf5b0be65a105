package xdp_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

const (
	// waitLimit bounds every wait of the tests on the real kernel.
	waitLimit = time.Minute
	// testEtherType marks test packets, because the kernel sends neighbour discovery on every new interface. It is the first of the
	// two types that IEEE 802 reserves for local experiments.
	testEtherType = 0x88b5
	etherHeader   = 14
)

// side is one end of the veth pair, alone in a network namespace without a name.
type side struct {
	ns      netns.NsHandle
	nl      *netlink.Handle
	name    string
	ifindex int
	xskmap  *ebpf.Map
}

// lab is a veth pair between two namespaces. Nothing of it has a name on the host or is pinned, so it disappears with the process
// in any case.
type lab struct {
	a, b *side
}

func requireRoot(t testing.TB) {
	t.Helper()
	netlabtest.NeedRoot(t)
	if err := xdp.Supported(); err != nil {
		t.Skip(err)
	}
}

// newLab makes the pair with the XDP program attached on both sides in the given mode.
func newLab(t testing.TB, mtu, queues int, mode link.XDPAttachFlags) *lab {
	t.Helper()
	requireRoot(t)
	if mtu > 3498 && !xdp.MultiBufferSupported() {
		t.Skip("needs multi-buffer AF_XDP: Linux 6.6 or later")
	}
	l := &lab{a: newSide(t, "xa"), b: newSide(t, "xb")}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues = l.a.name, mtu, queues, queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU, veth.PeerNamespace = l.b.name, uint32(mtu), netlink.NsFd(l.b.ns)
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(queues), uint32(queues)
	if err := l.a.nl.LinkAdd(veth); err != nil {
		t.Fatalf("add veth pair: %v", err)
	}
	for _, s := range []*side{l.a, l.b} {
		s.up(t)
		s.attach(t, queues, mode)
	}
	return l
}

func newSide(t testing.TB, name string) *side {
	t.Helper()
	s := &side{name: name}
	s.ns = newNamespace(t)
	nl, err := netlink.NewHandleAt(s.ns)
	if err != nil {
		t.Fatalf("netlink in namespace: %v", err)
	}
	t.Cleanup(nl.Close)
	s.nl = nl
	return s
}

// newNamespace makes an anonymous network namespace. The calling goroutine's thread stays in its own.
func newNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("network namespace: %v", err) // requireRoot has checked the privileges
	}
	ns, errGet := netns.Get()
	if err := errors.Join(errGet, netns.Set(home)); err != nil {
		t.Fatal(err) // the thread stays locked, so it ends with this goroutine, and no other goroutine runs in the namespace
	}
	runtime.UnlockOSThread()
	t.Cleanup(func() { ns.Close() })
	return ns
}

// in runs f on a thread inside the side's namespace.
func (s *side) in(t testing.TB, f func() error) error {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := netns.Set(s.ns); err != nil {
		t.Fatal(err)
	}
	result := f()
	if err := netns.Set(home); err != nil {
		t.Fatal(err)
	}
	runtime.UnlockOSThread()
	return result
}

func (s *side) up(t testing.TB) {
	t.Helper()
	l, err := s.nl.LinkByName(s.name)
	if err == nil {
		s.ifindex = l.Attrs().Index
		err = s.nl.LinkSetUp(l)
	}
	if err != nil {
		t.Fatalf("bring %s up: %v", s.name, err)
	}
}

// attach loads a program that redirects every packet to the socket of its queue. Without a socket it passes the packet to the
// kernel.
func (s *side) attach(t testing.TB, queues int, mode link.XDPAttachFlags) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(queues)})
	if err != nil {
		t.Fatalf("create XSKMAP: %v", err)
	}
	t.Cleanup(func() { m.Close() })
	s.xskmap = m
	const offsetOfRxQueueIndex, xdpPass = 16, 2 // struct xdp_md, enum xdp_action
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.XDP,
		License: "MIT",
		Flags:   unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, offsetOfRxQueueIndex, asm.Word),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Imm(asm.R3, xdpPass),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatalf("load XDP program: %v", err)
	}
	t.Cleanup(func() { prog.Close() })
	var attached link.Link
	err = s.in(t, func() (err error) {
		attached, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: s.ifindex, Flags: mode})
		return err
	})
	if err != nil {
		t.Fatalf("attach XDP to %s: %v", s.name, err)
	}
	t.Cleanup(func() { attached.Close() })
}

// open binds a socket with its own UMEM and steers its queue to it.
func (s *side) open(t testing.TB, cfg xdp.Config) *xdp.Socket {
	t.Helper()
	full := cfg
	if full.RxRing == 0 {
		full.RxRing, full.FillRing, full.TxRing, full.CompletionRing = 512, 1024, 512, 512
	}
	if full.RxFrames == 0 {
		full.RxFrames = 2 * full.RxRing
	}
	full.TxFrames = full.TxRing
	u, err := xdp.NewUMEM(xdp.UMEMConfig{RxFrames: full.RxFrames, TxFrames: full.TxFrames, ArenaBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.openOn(t, u, full)
}

func (s *side) openOn(t testing.TB, u *xdp.UMEM, cfg xdp.Config) *xdp.Socket {
	t.Helper()
	cfg.Ifindex = s.ifindex
	var x *xdp.Socket
	err := s.in(t, func() (err error) {
		x, err = xdp.Open(u, cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	s.steer(t, x, cfg.Queue)
	return x
}

func (s *side) steer(t testing.TB, x *xdp.Socket, queue uint32) {
	t.Helper()
	if err := s.xskmap.Put(queue, uint32(x.FD())); err != nil {
		t.Fatalf("put socket into XSKMAP: %v", err)
	}
}

// putPacket writes a test packet of n bytes (including the header) into tx frames, split at the end of each frame.
func putPacket(x *xdp.Socket, descs []xdp.Desc, n, seed int) ([]xdp.Desc, bool) {
	first, at := len(descs), 0
	for at < n {
		addr, ok := x.AllocTx()
		if !ok {
			for _, d := range descs[first:] {
				x.FreeTx(d.Addr)
			}
			return descs[:first], false
		}
		b := x.UMEM().Frame(addr)
		b = b[:min(len(b), n-at)]
		for i := range b {
			b[i] = packetByte(at+i, seed)
		}
		at += len(b)
		descs = append(descs, xdp.Desc{Addr: addr, Len: uint32(len(b)), Options: xdp.PacketContinues})
	}
	descs[len(descs)-1].Options = 0
	putHeader(x.UMEM().Frame(descs[first].Addr))
	return descs, true
}

func putHeader(b []byte) {
	copy(b, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01")
	binary.BigEndian.PutUint16(b[12:], testEtherType)
}

// packetByte is byte i of packet number seed, after its header.
func packetByte(i, seed int) byte { return byte(i*7 + i>>8 + seed*13) }

// isOurs distinguishes test packets from the kernel's.
func isOurs(u *xdp.UMEM, packet []xdp.Desc) bool {
	b := u.Bytes(packet[0].Addr, int(packet[0].Len))
	return len(b) >= etherHeader && binary.BigEndian.Uint16(b[12:]) == testEtherType
}
