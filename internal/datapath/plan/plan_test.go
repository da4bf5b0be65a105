package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/xdp"
)

// The usual place of a broker, and no broker.
const usualPlace = "/run/ndxdp/eth0.sock"

var errNoBroker = fmt.Errorf("%w listens at %s", broker.ErrNone, usualPlace)

// usual has the facts of an interface of a kind, for a process with all privileges and without a broker.
func usual(driver, kind string) facts {
	return facts{
		addr: netip.MustParseAddr("192.0.2.1"), broker: errNoBroker, lockable: host.Unlimited, room: host.MemoryRoom{Left: host.Unlimited}, multi: true,
		nic:   xdp.NIC{Name: "eth0", Driver: driver, RxQueues: 1, TxQueues: 1, MTU: 1500, Up: true, MAC: []byte{2, 0, 0, 0, 0, 1}},
		stack: host.Stack{Name: "eth0", Driver: driver, Kind: kind},
	}
}

// names lists the names of candidates in order. Names of brokered ones begin with "broker's".
func names(list []Candidate) (all []string) {
	for i := range list {
		c := &list[i]
		name := c.Datapath().String()
		if c.Opener == OpenBroker {
			name = "broker's " + name
		}
		all = append(all, name)
	}
	return all
}

// Changes that make facts worse.
var (
	with = func(f facts, changes ...func(*facts)) facts {
		for _, change := range changes {
			change(&f)
		}
		return f
	}
	over    = func(names ...string) func(*facts) { return func(f *facts) { f.stack.Lowers = names } }
	queues  = func(rx, tx int) func(*facts) { return func(f *facts) { f.nic.RxQueues, f.nic.TxQueues = rx, tx } }
	mtu     = func(n int, multi bool) func(*facts) { return func(f *facts) { f.nic.MTU, f.multi = n, multi } }
	layer3  = func(f *facts) { f.stack.Layer3 = true }
	looped  = func(f *facts) { f.stack.Loopback, f.nic.Loopback, f.nic.MAC = true, true, nil }
	tunnel  = func(f *facts) { f.nic.MAC = nil }
	down    = func(f *facts) { f.nic.Up = false }
	shared  = func(f *facts) { f.shared = "another adapter has it" }
	answers = func(f *facts) { f.broker = nil }
	lacks   = func(err error) func(*facts) {
		return func(f *facts) { f.xdp, f.bpf, f.ring = err, bpf.ErrUnsupported, bpf.ErrUnsupported }
	}
	unprivileged = lacks(&xdp.Error{Op: "use AF_XDP", Err: fmt.Errorf("%w: %w", xdp.ErrPermission, unix.EPERM)})
	noXDP        = func(f *facts) { f.xdp = fmt.Errorf("%w: %w", xdp.ErrNotSupported, unix.EAFNOSUPPORT) }
	noBPF        = func(f *facts) { f.bpf = fmt.Errorf("%w: %w", bpf.ErrUnsupported, bpf.ErrForbidden); f.ring = f.bpf }
	oldKernel    = func(f *facts) { f.ring = errors.New("programs at tcx need 6.6") }
	hooked       = func(f *facts) { f.held = &bpf.HeldError{Interface: "eth0"} }
	may          = func(bytes uint64) func(*facts) { return func(f *facts) { f.lockable, f.arena = bytes, 4<<20 } }
	roomy        = func(bytes uint64) func(*facts) {
		return func(f *facts) {
			f.room, f.arena = host.MemoryRoom{Left: bytes, Group: "/box", Limit: "memory.max"}, 4<<20
		}
	}
	blind = func(f *facts) { f.Netlink = host.ErrBlind }

	veth, nic = usual("veth", "veth"), usual("ice", "device")
)

// planned has the attempts of auto on each kind of interface in SUPPORT.md, and in each environment.
var planned = []struct {
	name string
	f    facts
	want string // candidates in order
	say  string // part of the reason of the first candidate
}{
	{"veth", veth, "tcx generic ring udp", "but not for a program at tcx"},
	{"veth with several queues", with(veth, queues(4, 4)), "generic ring udp", "generic mode is faster at every MTU"},
	{"veth before Linux 6.6", with(veth, oldKernel), "generic udp", "generic mode is faster at every MTU"},
	{"loopback", with(usual("", "device"), looped), "udp", "AF_XDP needs Ethernet, and eth0 is none"},
	{"loopback, without rights", with(usual("", "device"), looped, unprivileged), "udp", "AF_XDP needs Ethernet, and eth0 is none"},
	{"virtio_net", usual("virtio_net", "device"), "native generic ring udp", "native mode first"},
	{"a NIC with XDP in its driver", nic, "native generic ring udp", "native mode first"},
	{"a NIC whose driver does not tell its name", usual("", "device"), "native generic ring udp", "native mode first"},
	{"bond", with(usual("bonding", "bond"), over("eth1", "eth2")), "generic ring udp", "arrive on eth1, eth2"},
	{"bond without members yet", usual("bonding", "bond"), "generic ring udp", "members"},
	{"bridge", with(usual("bridge", "bridge"), over("eth1")), "generic ring udp", "arrive on eth1"},
	{"macvlan", usual("macvlan", "macvlan"), "native generic ring udp", "native mode first"},
	{"ipvlan in L2 mode", usual("ipvlan", "ipvlan"), "native generic ring udp", "native mode first"},
	{"VLAN", usual("802.1Q VLAN Support", "vlan"), "native generic ring udp", "native mode first"},
	{"VXLAN", usual("vxlan", "vxlan"), "native generic ring udp", "native mode first"},
	{"ipvlan in L3 mode", with(usual("ipvlan", "ipvlan"), layer3), "ring udp", "an ipvlan interface in L3 mode"},
	{"ipvlan in L3 mode, with a broker", with(usual("ipvlan", "ipvlan"), layer3, answers), "ring udp", "an ipvlan interface in L3 mode"},
	{"tap", usual("tun", "tuntap"), "native generic ring udp", "native mode first"},
	{"member of a VRF", veth, "tcx generic ring udp", "tcx"},
	{"tun", with(usual("tun", "tuntap"), tunnel), "udp", "AF_XDP needs Ethernet"},
	{"dummy", usual("dummy", "dummy"), "udp", "the dummy interface eth0"},
	{"vrf", with(usual("vrf", "vrf"), over("eth1")), "udp", "the vrf interface eth0"},
	{"team", with(usual("team", "team"), over("eth1")), "generic ring udp", "arrive on eth1"},
	{"hv_netvsc with a VF", with(usual("hv_netvsc", "device"), over("eth1")), "generic ring udp", "arrive on eth1"},
	{"hv_netvsc without a VF", usual("hv_netvsc", "device"), "generic ring udp", "virtual function"},
	{"failover", with(usual("net_failover", "device"), over("eth1")), "generic ring udp", "arrive on eth1"},

	{"an interface that is down", with(veth, down), "udp", "ip link set eth0 up"},
	{"more queues to receive than to send", with(nic, queues(2, 1)), "ring udp", "can send on 1 only"},
	{"more queues than engines", with(nic, queues(65, 65)), "ring udp", "at most 64"},
	{"a large MTU without multi-buffer", with(nic, mtu(9000, false)), "ring udp", "lower the MTU"},
	{"veth, a large MTU without multi-buffer", with(veth, mtu(9000, false)), "tcx ring udp", "tcx"},

	{"beside another adapter", with(veth, shared), "ring udp", "another adapter has it; no broker listens"},
	{"beside another adapter, with a broker", with(veth, shared, answers), "broker's auto ring broker's ring udp", "another adapter has it"},
	{"without rights", with(veth, unprivileged), "udp", "AF_XDP needs privileges that this process lacks"},
	{"without rights, with a broker", with(veth, unprivileged, answers), "broker's auto broker's ring udp", "AF_XDP needs privileges"},
	{"all rights, with a broker", with(veth, answers), "tcx generic broker's auto ring broker's ring udp", "tcx"},
	{"AF_XDP is refused", with(veth, noXDP), "ring udp", "address family not supported"},
	{"bpf is refused", with(veth, noBPF), "udp", "AF_XDP needs to load an XDP program"},
	{"both are refused", with(veth, noXDP, noBPF), "udp", "address family not supported"},
	{"netlink is refused", with(veth, blind), "udp", "permit AF_NETLINK"},
	{"all is refused", with(veth, blind, noXDP, noBPF), "udp", "address family not supported"},
	{"somebody's XDP program", with(nic, hooked), "ring udp", "the interface's XDP program"},
	{"somebody's XDP program on veth", with(veth, hooked), "tcx ring udp", "tcx"},
	{"little may be locked", with(veth, may(64<<10)), "ring udp", "ulimit -l"},
	{"a small memory cgroup", with(veth, roomy(64<<10)), "ring udp", "memory cgroup /box"},
	{"a memory cgroup with room to send", with(veth, roomy(8<<20)), "tcx ring udp", "tcx"},
	{"enough may be locked to send", with(veth, may(8<<20)), "tcx ring udp", "tcx"},
	{"enough may be locked", with(veth, may(64<<20)), "tcx generic ring udp", "tcx"},
}

// TestPlan: the last candidate of auto is plain sockets in every case, with a reason.
func TestPlan(t *testing.T) {
	for _, c := range planned {
		list, refused := List(Auto, &c.f)
		if got := strings.Join(names(list), " "); got != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, got, c.want, refused)
			continue
		}
		if !strings.Contains(list[0].Reason, c.say) || strings.Contains(list[0].Reason, "\n") {
			t.Errorf("%s: the reason is %q, want %q", c.name, list[0].Reason, c.say)
		}
		if last := list[len(list)-1]; (refused != nil) != (last.Reason != "") {
			t.Errorf("%s: plain sockets have the reason %q, and AF_XDP is refused by %v", c.name, last.Reason, refused)
		}
		p, err := foresee(&Config{}, &c.f)
		first := slices.IndexFunc(list, func(c Candidate) bool { return c.Opener == openSelf })
		if err != nil || p.Datapath != list[first].Datapath() {
			t.Errorf("%s: %v (%v) is foreseen", c.name, p.Datapath, err)
		}
	}
}

// TestPlanOfWhatIsAskedFor: a datapath that was requested is the only candidate, or the error lists everything that prevents it.
func TestPlanOfWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  Datapath
		spoil func(*facts)
		list  string
		say   []string // parts of the error
	}{
		{"native", Native, func(*facts) {}, "native", nil},
		{"generic", Generic, func(*facts) {}, "generic", nil},
		{"tcx", TCX, func(*facts) {}, "tcx", nil},
		{"ring", Ring, func(*facts) {}, "ring", nil},
		{"ring on loopback", Ring, func(f *facts) { f.stack.Loopback = true }, "ring", nil},
		{"ring on loopback for a broker's client", Ring, func(f *facts) { f.stack.Loopback, f.Client = true, true }, "", []string{"not an Ethernet interface"}},
		{"udp, of a process that may do nothing", UDP, func(f *facts) { f.xdp, f.bpf, f.ring, f.Netlink = unix.EPERM, unix.EPERM, unix.EPERM, host.ErrBlind }, "udp", nil},
		{"native on a bond", Native, func(f *facts) { f.stack.Lowers = []string{"eth1", "eth2"} }, "", []string{"open 192.0.2.1 on interface eth0", "arrive on eth1, eth2", "use generic mode"}},
		{"generic on a dummy", Generic, func(f *facts) { f.stack.Kind = "dummy" }, "", []string{"arrive on other interfaces", "udp datapath"}},
		{"ring on a vrf", Ring, func(f *facts) { f.stack.Kind = "vrf" }, "", []string{"arrive on other interfaces", "udp datapath"}},
		{"generic on ipvlan in L3 mode", Generic, func(f *facts) { f.stack.Layer3 = true }, "", []string{"ring datapath or udp"}},
		{"generic on loopback without rights", Generic, func(f *facts) { f.stack.Loopback, f.xdp = true, unix.EPERM }, "", []string{"not an Ethernet interface", "udp datapath"}},
		{"tcx with several queues", TCX, func(f *facts) { f.nic.RxQueues, f.nic.TxQueues = 4, 4 }, "", []string{"4 receive queues, and a ring one reader", "auto, generic"}},
		{"generic beside another adapter", Generic, func(f *facts) { f.shared = "another adapter has it" }, "", []string{"another adapter has it", "another datapath (auto, udp)"}},
		{"native where all is refused", Native, func(f *facts) {
			f.Netlink, f.xdp, f.bpf = host.ErrBlind, errors.New("permit AF_XDP"), errors.New("permit bpf")
		}, "", []string{"permit AF_NETLINK", "permit AF_XDP", "permit bpf"}},
		{"ring without rights", Ring, func(f *facts) { f.ring = errors.New("grant CAP_BPF") }, "", []string{"with a ring", "grant CAP_BPF"}},
		{"generic with little memory to lock", Generic, func(f *facts) { f.lockable = 1 << 20 }, "", []string{"ulimit -l"}},
		{"generic in a small memory cgroup", Generic, func(f *facts) { f.room = host.MemoryRoom{Left: 1 << 20, Group: "/box", Limit: "memory.max"} }, "", []string{"memory cgroup /box leaves 1024 KiB", "memory.max"}},
		{"generic beside an XDP program", Generic, func(f *facts) { f.held = &bpf.HeldError{Interface: "eth0"} }, "", []string{"eth0"}},
		{"auto of a broker that was named", Auto, func(f *facts) { f.named = true }, "broker's auto broker's ring", nil},
		{"ring of a broker that was named", Ring, func(f *facts) { f.named = true }, "broker's ring", nil},
		{"udp of a broker that was named", UDP, func(f *facts) { f.named = true }, "", []string{"need no broker"}},
		{"auto for a broker's client", Auto, func(f *facts) { f.Client = true }, "generic", nil},
		{"tcx for a broker's client", TCX, func(f *facts) { f.Client = true }, "", []string{"a broker fills rings for plain sockets only"}},
	} {
		f := usual("veth", "veth")
		c.spoil(&f)
		list, err := List(c.want, &f)
		if got := strings.Join(names(list), " "); got != c.list || (err != nil) != (c.list == "") {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.list)
		}
		for _, text := range c.say {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error lacks %q: %v", c.name, text, err)
			}
		}
	}
}

// TestRefusalsLeadOn: each kind of failure of the first candidate removes only the candidates that it affects. Plain sockets always
// remain.
func TestRefusalsLeadOn(t *testing.T) {
	f := usual("veth", "veth")
	f.broker = nil
	list, err := List(Auto, &f)
	must(t, err)
	for _, c := range []struct {
		err  error
		left string
		say  string
	}{
		{xdp.ErrPermission, "broker's auto ring udp", "lacks"},
		{xdp.ErrLockedMemory, "broker's auto ring udp", "lock memory"},
		{xdp.ErrQueueBusy, "broker's auto ring udp", "queue"},
		{xdp.ErrNotSupported, "broker's auto ring udp", "a kernel that has it"},
		{bpf.ErrForbidden, "broker's auto udp", "load an XDP program"},
		{bpf.ErrUnsupported, "broker's auto udp", "load an XDP program"},
		{bpf.ErrHeld, "broker's auto ring udp", "XDP program"},
		{errors.New("something else"), "generic broker's auto ring udp", "the tcx datapath was refused: something else"},
		{unix.EAFNOSUPPORT, "generic broker's auto ring udp", "the tcx datapath was refused"},
		{unix.EMFILE, "", ""},
		{&broker.RingsError{Err: errors.New("rings only")}, "generic broker's auto ring broker's ring udp", "rings only"},
	} {
		var left []Candidate
		for _, next := range list[1:] {
			if next.Hopeful([]error{c.err}) {
				left = append(left, next)
			}
		}
		if got := strings.Join(names(left), " "); got != c.left || !strings.Contains(list[0].RefusedWith(c.err), c.say) {
			t.Errorf("%v leaves %q, want %q, and says %q", c.err, got, c.left, list[0].RefusedWith(c.err))
		}
	}
}

// TestMissingRightsAreOneSentence: for any request without privileges, the error lists each missing capability once, and the
// command that explains more.
func TestMissingRightsAreOneSentence(t *testing.T) {
	missing := []string{xdp.MissingNetRaw, "CAP_NET_ADMIN (to attach the XDP program)", "CAP_BPF (to load the XDP program)"}
	for want, names := range map[Datapath][]string{
		Generic: {"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"}, Native: {"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"},
		TCX: {"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"}, Ring: {"CAP_NET_ADMIN", "CAP_BPF"},
	} {
		f := with(veth, unprivileged)
		f.lacks(missing)
		_, err := List(want, &f)
		for _, text := range append(names, "ndinfo doctor eth0") {
			if err == nil || strings.Count(err.Error(), text) != 1 {
				t.Errorf("%s: %v, want %q once", want, err, text)
			}
		}
		if !errors.Is(err, xdp.ErrPermission) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 200 {
			t.Errorf("%s: %q", want, err)
		}
	}
	f := with(veth, unprivileged)
	f.lacks(missing)
	list, _ := List(Auto, &f)
	if got := list[0].Reason; strings.Count(got, "CAP_BPF") != 1 || len(got) > 200 {
		t.Errorf("auto says %q", got)
	}
}

// If a memory cgroup has no room, both locked memory and memory are lacking.
func TestRoomOfACgroup(t *testing.T) {
	const mib = 1 << 20
	if err := Pinnable(mib, host.Unlimited, host.MemoryRoom{Left: mib - 1, Group: "/box", Limit: "memory.limit_in_bytes"}); !errors.Is(err, xdp.ErrLockedMemory) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("%v is neither %v nor %v", err, xdp.ErrLockedMemory, unix.ENOMEM)
	} else if !strings.Contains(err.Error(), "(memory.limit_in_bytes)") {
		t.Errorf("%v does not name the file that sets the limit", err)
	}
}
