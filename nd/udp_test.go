package nd

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// loopback is two addresses that exist without configuration, and that no other test process uses.
var loopback = netlabtest.Loopback()

// newLoopRig is two adapters on loopback addresses, which need no privilege.
func newLoopRig(t testing.TB, dp Datapath) (*rig, uint16) {
	t.Helper()
	r := &rig{addr: netlabtest.Loopback()}
	cfg := AdapterConfig{UDPPort: netlabtest.FreePort(t), Datapath: dp}
	for i, a := range []**Adapter{&r.a, &r.b} {
		cfg.Address = r.addr[i]
		opened, err := OpenAdapter(cfg)
		must(t, err)
		t.Cleanup(func() { must(t, opened.Close()) })
		*a = opened
	}
	return r, cfg.UDPPort
}

// moveEverything performs each operation with a MiB from a to b, and compares the bytes.
func moveEverything(t testing.TB, r *rig) {
	t.Helper()
	const size = 1 << 20
	client, server := r.connect(t, 4*size)
	far, near := server.mr.Bytes(), client.mr.Bytes()
	for i := range near {
		near[i] = byte(i*7 + i>>8)
	}
	same := func(what string, got, want []byte) {
		t.Helper()
		// The peer's completion shows that its engine wrote the bytes. The race detector does not see that, because it watches
		// ordinary memory. Locking both engines for a moment tells it.
		r.a.Stats()
		r.b.Stats()
		if !bytes.Equal(got, want) {
			t.Fatalf("the %s did not arrive whole", what)
		}
	}
	must(t, client.qp.Write(1, []SGE{client.mr.SGE(0, size)}, server.mr.Address()+100, server.mr.RemoteToken(), 0))
	client.wantResult(t, 1, RequestWrite, StatusSuccess)
	same("Write", far[100:][:size], near[:size])

	must(t, server.qp.Receive(2, []SGE{server.mr.SGE(2*size, size)}))
	must(t, client.qp.Send(3, []SGE{client.mr.SGE(5, size-5)}, 0))
	if res := server.wantResult(t, 2, RequestReceive, StatusSuccess); res.Bytes != size-5 {
		t.Fatalf("receive: %+v", res)
	}
	client.wantResult(t, 3, RequestSend, StatusSuccess)
	same("Send", far[2*size:][:size-5], near[5:size])

	must(t, client.qp.Read(4, []SGE{client.mr.SGE(3*size, size)}, server.mr.Address()+100, server.mr.RemoteToken(), 0))
	client.wantResult(t, 4, RequestRead, StatusSuccess)
	same("Read", near[3*size:], far[100:][:size])

	// Now b sends few bytes to a.
	must(t, client.qp.Receive(5, []SGE{client.mr.SGE(0, 100)}))
	must(t, server.qp.Send(6, []SGE{server.mr.SGE(300, 64)}, 0))
	client.wantResult(t, 5, RequestReceive, StatusSuccess)
	server.wantResult(t, 6, RequestSend, StatusSuccess)
	same("small Send", near[:64], far[300:364])
	t.Logf("%+v", r.a.Stats())
	t.Logf("%+v", r.b.Stats())
}

func TestUDPMovesBytesOverLoopback(t *testing.T) {
	r, _ := newLoopRig(t, DatapathUDP)
	moveEverything(t, r)
	if info := r.a.Datapath(); info.Datapath != DatapathUDP || info.Reason != "asked for" || info.Interface != "lo" {
		t.Errorf("datapath: %+v", info)
	}
}

// TestUDPSmallLoopbackMTU lowers the MTU of a separate loopback interface.
func TestUDPSmallLoopbackMTU(t *testing.T) {
	ns := netlabtest.Namespace(t)
	must(t, ns.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(lo, 1500)
	}))
	r := &rig{addr: loopback}
	r.a = openIn(t, ns, AdapterConfig{Address: loopback[0], Datapath: DatapathUDP})
	r.b = openIn(t, ns, AdapterConfig{Address: loopback[1], Datapath: DatapathUDP})
	moveEverything(t, r)
	if s := r.a.Stats(); s.Packets.Out < 1<<20/1500 {
		t.Errorf("%d packets for 1 MiB: they are larger than the MTU", s.Packets.Out)
	}
}

func TestUDPMovesBytesOverVeth(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		moveEverything(t, newRig(t, mtu, DatapathUDP))
	}
}

// TestDatapathsInteroperate connects plain sockets with AF_XDP, in both directions (PROTOCOL §2).
func TestDatapathsInteroperate(t *testing.T) {
	for _, c := range []struct {
		mtu  int
		a, b Datapath
	}{
		{1500, DatapathUDP, DatapathGeneric},
		{1500, DatapathGeneric, DatapathUDP},
		{9000, DatapathUDP, DatapathGeneric},
		{9000, DatapathNative, DatapathUDP},
	} {
		t.Run(c.a.String()+" to "+c.b.String(), func(t *testing.T) {
			pair := netlabtest.Pair(t, netlab.PairConfig{MTU: c.mtu})
			r := &rig{addr: [2]netip.Addr{pair.AddrA.Addr(), pair.AddrB.Addr()}, pair: pair}
			r.a = openIn(t, pair.A, AdapterConfig{Address: r.addr[0], Datapath: c.a})
			r.b = openIn(t, pair.B, AdapterConfig{Address: r.addr[1], Datapath: c.b})
			moveEverything(t, r)
		})
	}
}

// TestUDPUnreachable resolves a neighbour that does not exist, without the privilege to ask the kernel.
func TestUDPUnreachable(t *testing.T) {
	r := newRig(t, 1500, DatapathUDP)
	client := newEnd(t, r.a, 4096)
	for _, c := range []struct {
		to   string
		want Status
	}{
		{r.addr[1].Next().String(), ErrHostUnreachable},
		{"203.0.113.1", ErrNetworkUnreachable},
	} {
		err := client.ctr.Connect(t.Context(), client.qp, netip.AddrPortFrom(netip.MustParseAddr(c.to), 1), helloParams)
		wantStatus(t, "connect to "+c.to, err, c.want)
	}
}

// ordinaryUser is an environment variable: the test binary was executed again without privileges.
const ordinaryUser = "ND_TEST_ORDINARY_USER"

// TestUDPAsOrdinaryUser: for a user without the privileges for AF_XDP, auto chooses plain sockets and reports why, whether or not
// the interface supports AF_XDP.
func TestUDPAsOrdinaryUser(t *testing.T) {
	if os.Getenv(ordinaryUser) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), ordinaryUser+"=1")
		cmd.Dir = "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Fatalf("as an ordinary user: %v\n%s", err, out)
		}
		return
	}
	r, port := newLoopRig(t, DatapathAuto)
	moveEverything(t, r)
	if info := r.a.Datapath(); info.Datapath != DatapathUDP || !strings.Contains(info.Reason, "AF_XDP needs Ethernet") {
		t.Errorf("datapath: %+v", info)
	}
	_, err := OpenAdapter(AdapterConfig{Address: r.addr[0], Datapath: DatapathGeneric})
	wantStatus(t, "open AF_XDP", err, ErrDeviceNotReady)
	if !strings.Contains(err.Error(), "not an Ethernet interface") { // privileges would not help
		t.Errorf("the error does not name what is missing: %v", err)
	}
	second, err := OpenAdapter(AdapterConfig{Address: r.addr[0], UDPPort: port})
	if err != nil {
		t.Fatalf("a second adapter of the address: %v", err)
	}
	defer second.Close()
	if info := second.Datapath(); info.Datapath != DatapathUDP || !strings.Contains(info.Reason, "AF_XDP needs Ethernet") {
		t.Errorf("the second adapter of the address: %+v", info)
	}
}

// TestUDPWhereNoEthernetIs: for loopback, which does not support AF_XDP, auto chooses plain sockets for any user.
func TestUDPWhereNoEthernetIs(t *testing.T) {
	r, _ := newLoopRig(t, DatapathAuto)
	if info := r.a.Datapath(); info.Datapath != DatapathUDP || !strings.Contains(info.Reason, "AF_XDP needs") {
		t.Errorf("datapath: %+v", info)
	}
}
