package ndhealth

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/xdp"
)

// healthy returns the facts of an interface without findings.
func healthy() *facts {
	return &facts{
		nic: xdp.NIC{
			Name: "eth0", Index: 2, Driver: "ice", RxQueues: 4, TxQueues: 4, MTU: 9000, Up: true, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1},
		},
		cfg: Config{Interface: "eth0", UDPPort: 14791, Peer: netip.MustParseAddr("192.0.2.7")}, carrier: true, addr: netip.MustParseAddr("192.0.2.1"),
		auto: nd.DatapathNative, reason: "measured", kernel: "6.18", multi: true, lockFree: true, available: 64 << 30, cores: 8,
		features: featureBasic | featureRedirect | featureZeroCopy | featureFrags, featuresKnown: true,
		rings: rings{2048, 4096, 2048, 4096}, spread: map[int]bool{0: true, 1: true, 2: true, 3: true}, qdisc: "mq",
		buffers: buffers{32 << 20, 32 << 20}, napi: &xdp.NAPISettings{}, iommu: "identity", peer: &peerAnswer{err: nd.ErrConnectionRefused, asked: true},
		running: []Running{{PID: 7, Command: "server"}}, firewall: firewall{known: true},
	}
}

func TestHealthy(t *testing.T) {
	for _, dp := range []nd.Datapath{nd.DatapathAuto, nd.DatapathGeneric, nd.DatapathNative, nd.DatapathUDP} {
		f := healthy()
		f.cfg.Datapath = dp
		r := f.report()
		if !r.Works() || dp != nd.DatapathUDP && len(r.Findings) != len(checks)-2 {
			t.Errorf("%s: works %v, %d findings of %d", dp, r.Works(), len(r.Findings), len(checks))
		}
		for _, finding := range r.Findings {
			if finding.Severity != OK || finding.Check == "" || finding.Found == "" {
				t.Errorf("%s: %+v", dp, finding)
			}
		}
	}
}

// rules is an output of nft --json list ruleset.
const rules = `{"nftables":[{"metainfo":{"json_schema_version":1}},{"table":{"family":"inet","name":"f","handle":1}},
{"chain":{"family":"inet","table":"f","name":"in","handle":1,"type":"filter","hook":"input","prio":0,"policy":"drop"}},
{"rule":{"family":"inet","table":"f","chain":"in","handle":5,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":14791}},{"drop":null}]}},
{"rule":{"family":"inet","table":"f","chain":"in","handle":6,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":{"set":[53,{"range":[100,200]}]}}},{"accept":null}]}},
{"rule":{"family":"inet","table":"f","chain":"in","handle":7,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":14791}},{"counter":{"packets":0,"bytes":0}},{"drop":null}]}},
{"rule":{"family":"inet","table":"f","chain":"in","handle":8,"expr":[{"match":{"op":"==","left":{"meta":{"key":"iifname"}},"right":"eth0"}},{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":{"range":[15000,15010]}}},{"reject":null}]}},
{"rule":{"family":"inet","table":"f","chain":"in","handle":9,"expr":[{"match":{"op":"==","left":{"meta":{"key":"l4proto"}},"right":"udp"}},{"match":{"op":"==","left":{"payload":{"protocol":"udp","field":"dport"}},"right":16000}},{"drop":null}]}}]}`

// TestFirewallFindings: for plain sockets the finding names the rule or chain that stops packets, and how certain that is. For
// AF_XDP there is no finding.
func TestFirewallFindings(t *testing.T) {
	for _, c := range []struct {
		port    uint16
		want    Severity
		say, do string
	}{
		{14791, Problem, "rule 7 of chain inet f in", "nft delete rule inet f in handle 7"},
		{15001, Hint, "from some", "handle 8"},
		{16000, Problem, "rule 9 of chain inet f in", "nft delete rule inet f in handle 9"},
		{9, Hint, "none names UDP port 9", "nft insert rule inet f in 'udp dport { 9,49152-65535 } accept'"},
		{53, OK, "no rule", ""},
	} {
		f := healthy()
		f.cfg.Datapath, f.cfg.UDPPort, f.firewall = nd.DatapathUDP, c.port, judgeRules([]byte(rules), c.port, true)
		if got, looked := judgeFirewall(f); !looked || got.Severity != c.want || !strings.Contains(got.Found, c.say) || !strings.Contains(got.Remedy, c.do) {
			t.Errorf("port %d: %+v", c.port, got)
		}
		f.cfg.Datapath = nd.DatapathGeneric
		if got, _ := judgeFirewall(f); got.Severity != OK {
			t.Errorf("port %d over AF_XDP: %+v", c.port, got)
		}
	}
}

// TestRulesThatAccept: packets accepted by an earlier rule pass, for a single port or a set. Rules that cannot be parsed give no
// finding.
func TestRulesThatAccept(t *testing.T) {
	for _, port := range []uint16{53, 100, 200} {
		if f := judgeRules([]byte(rules), port, true); !f.known || f.what != passes {
			t.Errorf("port %d: %+v", port, f)
		}
	}
	if f := judgeRules([]byte("nft: Operation not permitted"), 53, true); f.known {
		t.Errorf("%+v", f)
	}
}

// held puts another program's XDP program on the interface.
func held(asked nd.Datapath, by bpf.HeldError) func(*facts) {
	return func(f *facts) {
		f.holder, f.cfg.Datapath = &by, asked
		if asked == nd.DatapathAuto {
			f.auto = nd.DatapathRing
		}
	}
}

// little limits the memory that the process can lock. auto would choose one datapath, and chooses another if the limit is too low
// for it.
func little(asked, auto nd.Datapath, limit uint64) func(*facts) {
	return func(f *facts) {
		f.lockFree, f.memlock, f.cfg.Datapath, f.auto = false, limit, asked, auto
		if need := leastLocked(f.nic.RxQueues, plan.Datapath(auto)); limit < need {
			f.denied, f.auto = need, nd.DatapathUDP
		}
	}
}

// without makes auto choose a ring, because a setting makes AF_XDP unusable.
func (f *facts) without(lacking error) { f.forgone, f.auto, f.ring = lacking, nd.DatapathRing, true }

// broken has changed facts, each with the one finding that it causes.
var broken = []struct {
	name    string
	spoil   func(*facts)
	check   string
	want    Severity
	say, do string
}{
	{"no AF_XDP", func(f *facts) { f.xdpError = xdp.ErrNotSupported; f.refused = xdp.ErrNotSupported }, "kernel", Problem, "no AF_XDP", "CONFIG_XDP_SOCKETS"},
	{"no BPF", func(f *facts) { f.bpfError = bpf.ErrUnsupported; f.refused = bpf.ErrUnsupported }, "kernel", Problem, "steering", "CONFIG_BPF_SYSCALL"},
	{"no rights", func(f *facts) { f.missing = []string{"CAP_NET_RAW"}; f.auto = nd.DatapathUDP }, "capabilities", Hint, "CAP_NET_RAW", "setcap"},
	{"no rights, for a ring", func(f *facts) { f.missing = []string{"CAP_BPF"}; f.cfg.Datapath = nd.DatapathRing }, "capabilities", Problem, "CAP_BPF", "setcap"},
	{"no netlink", func(f *facts) { f.blind, f.auto = true, nd.DatapathUDP }, "netlink", Hint, "were not examined", "permit AF_NETLINK"},
	{"no netlink, for plain sockets", func(f *facts) { f.blind = true; f.cfg.Datapath = nd.DatapathUDP }, "netlink", Hint, "were not examined", "permit AF_NETLINK"},
	{"no netlink, asked for", func(f *facts) { f.blind = true; f.cfg.Datapath = nd.DatapathGeneric }, "netlink", Problem, "were not examined", "permit AF_NETLINK"},
	{"no rights, asked for", func(f *facts) { f.missing = []string{"CAP_BPF"}; f.cfg.Datapath = nd.DatapathNative }, "capabilities", Problem, "CAP_BPF", "setcap"},
	{"rights that do not count", func(f *facts) { f.forbidden = bpf.ErrForbidden.Error(); f.auto = nd.DatapathUDP }, "capabilities", Hint, "does not let this process", "broker"},
	{"little may be pinned", little(nd.DatapathAuto, nd.DatapathNative, 8<<20), "locked memory", Hint, "8192 KiB may be pinned, 60 MiB are needed", "ulimit -l"},
	{"too little for zero-copy", little(nd.DatapathAuto, nd.DatapathNative, 64<<20), "locked memory", Hint, "sockets of native mode copy meanwhile", "ulimit -l"},
	{"little may be pinned, for a ring", little(nd.DatapathAuto, nd.DatapathTCX, 1<<20), "locked memory", Hint, "plain UDP sockets serve meanwhile", "ulimit -l"},
	{"little may be pinned, asked for", little(nd.DatapathGeneric, nd.DatapathTCX, 32<<20), "locked memory", Problem, "32 MiB may be pinned, 60 MiB are needed", "ulimit -l"},
	{"no address", func(f *facts) { f.addr = netip.Addr{}; f.peer = nil }, "interface", Problem, "no address", "ip address add"},
	{"no native XDP", func(f *facts) { f.features = 0; f.cfg.Datapath = nd.DatapathNative; f.nic.MTU = 1500 }, "driver", Problem, "no native XDP", "generic"},
	{"native on a bond", func(f *facts) { f.cfg.Datapath = nd.DatapathNative; f.unsuited = errors.New("arrive on eth1") }, "driver", Problem, "arrive on eth1", "auto"},
	{"packets vanish", func(f *facts) { f.running[0].vanished = 80 }, "redirection", Problem, "80 packets for process 7", "--datapath generic"},
	{"no Ethernet", func(f *facts) { f.nic.MAC = nil; f.cfg.Datapath = nd.DatapathGeneric }, "driver", Problem, "no Ethernet", "udp"},
	{"no multi-buffer", func(f *facts) { f.multi, f.nic.MTU = false, 1500 }, "kernel", Hint, "3822 at most", "Linux 6.6"},
	{"no fragments", func(f *facts) { f.features &^= featureFrags }, "mtu", Hint, "several pages", "mtu 3822"},
	{"no fragments, asked for", func(f *facts) { f.features &^= featureFrags; f.cfg.Datapath = nd.DatapathNative }, "mtu", Problem, "several pages", "mtu 3822"},
	{"too many queues", func(f *facts) {
		f.nic.RxQueues, f.nic.TxQueues, f.cores, f.spread = 65, 65, 96, nil
		f.without(plan.ErrQueues)
	}, "queues", Hint, "64 at most", "combined 64"},
	{"more queues than processors", func(f *facts) { f.cores = 2 }, "queues", Hint, "2 processors", "ethtool -L eth0 combined 2"},
	{"too many queues, asked for", func(f *facts) {
		f.nic.RxQueues, f.nic.TxQueues, f.cores, f.spread, f.cfg.Datapath = 65, 65, 96, nil, nd.DatapathGeneric
	}, "queues", Problem, "64 at most", "combined 64"},
	{"fewer transmit queues", func(f *facts) {
		f.nic.TxQueues = 1
		f.without(plan.ErrQueues)
	}, "queues", Hint, "serve meanwhile", "ethtool -L eth0 combined 1"},
	{"fewer transmit queues, asked for", func(f *facts) { f.nic.TxQueues, f.cfg.Datapath = 1, nd.DatapathGeneric }, "queues", Problem, "1 transmit", "ethtool -L eth0 combined 1"},
	{"fewer transmit queues, set apart", func(f *facts) {
		f.nic.TxQueues, f.queuesApart = 1, true
		f.without(plan.ErrQueues)
	}, "queues", Hint, "1 transmit", "ethtool -L eth0 rx 1 tx 1"},
	{"large MTU without multi-buffer", func(f *facts) {
		f.multi = false
		f.without(plan.ErrMTU)
	}, "mtu", Hint, "serve meanwhile", "mtu 3822"},
	{"one queue for all", func(f *facts) { f.spread = map[int]bool{0: true} }, "rss", Hint, "1 of 4", "ethtool -X eth0 equal 4"},
	{"short ring", func(f *facts) { f.rings.rx = 256 }, "nic rings", Hint, "256 receive descriptors of 4096", "ethtool -G eth0 rx 2048"},
	{"small send buffer", func(f *facts) { f.buffers.send = 208 << 10 }, "socket buffers", Hint, "208 KiB to send", "net.core.wmem_max=33554432"},
	{"small receive buffer", func(f *facts) { f.buffers.receive = 208 << 10; f.cfg.Datapath = nd.DatapathUDP }, "socket buffers", Hint, "208 KiB to receive", "rmem_max"},
	{"shaped, by nobody", func(f *facts) { f.qdisc = "tbf" }, "qdisc", Hint, "past it", "udp"},
	{"shaped", func(f *facts) { f.qdisc, f.cfg.Datapath = "netem", nd.DatapathUDP }, "qdisc", Hint, "delays", "tc qdisc del dev eth0 root"},
	{"no key of the host", func(f *facts) { f.keyError = errors.New("belongs to another user") }, "reset key", Hint, "another user", "0600"},
	{"our program", held(nd.DatapathAuto, bpf.HeldError{Ours: true, LinkID: 3, PID: 7, Comm: "app"}), "xdp program", Hint, "process 7 (app)", "kill 7"},
	{"our program, asked for", held(nd.DatapathNative, bpf.HeldError{Ours: true, LinkID: 3, PID: 7}), "xdp program", Problem, "one process at a time", "--datapath auto"},
	{"pinned link", held(nd.DatapathAuto, bpf.HeldError{LinkID: 9, HolderMode: "native"}), "xdp program", Hint, "native mode", "bpftool link detach id 9"},
	{"pinned link, asked for", held(nd.DatapathGeneric, bpf.HeldError{LinkID: 9}), "xdp program", Problem, "never replaced", "bpftool link detach id 9"},
	{"program without an owner", held(nd.DatapathAuto, bpf.HeldError{HolderMode: "generic"}), "xdp program", Hint, "generic mode", "xdpgeneric off"},
	{"port of another user's adapter", func(f *facts) {
		f.port.shared, f.port.holder, f.auto = true, "process 12 of user 1001", nd.DatapathRing
	}, "udp port", Hint, "with process 12 of user 1001, is that of another adapter", "none is needed"},
	{"squatted name", func(f *facts) { f.port.squatter = "process 12 of user 1001" }, "udp port", Problem, "is squatted by process 12 of user 1001", "end that process"},
	{"port of another adapter", func(f *facts) { f.port.shared, f.auto = true, nd.DatapathRing }, "udp port", Hint, "another adapter of this machine", "none is needed"},
	{"programs cannot be listed", func(f *facts) { f.holderError = errors.New("no") }, "xdp program", Hint, "does not tell", "ip link show"},
	{"port of another adapter, asked for", func(f *facts) { f.port.shared = true; f.cfg.Datapath = nd.DatapathGeneric }, "udp port", Problem, "first adapter", "--datapath auto"},
	{"port of another adapter, over plain sockets", func(f *facts) { f.port.shared = true; f.cfg.Datapath = nd.DatapathUDP }, "udp port", Hint, "another adapter", "none is needed"},
	{"port", func(f *facts) { f.port.taken = true }, "udp port", Problem, "is taken", "sport = :14791"},
	{"port, of a process", func(f *facts) { f.port.taken, f.port.used = true, "process 7 (x)" }, "udp port", Problem, "is taken by process 7 (x)", "sport = :14791"},
	{"port that is not told of", func(f *facts) { f.port.err = errors.New("no sock_diag") }, "udp port", Hint, "no sock_diag", "ss -ulpn"},
	{"knobs", func(f *facts) { f.napi = &xdp.NAPISettings{DeferHardIRQs: 2, FlushTimeout: 200 * time.Microsecond} }, "napi", Hint, "200µs", "echo 0 | tee /sys"},
	{"IOMMU", func(f *facts) { f.iommu = "DMA-FQ" }, "iommu", Hint, "DMA-FQ", "iommu=pt"},
	{"half of the memory", func(f *facts) { f.available = 300 << 20 }, "memory", Hint, "never swapped", "ethtool -L"},
	{"too little memory", func(f *facts) { f.available = 100 << 20 }, "memory", Problem, "want of memory", "ethtool -L"},
	{"own address as peer", func(f *facts) { f.peer = &peerAnswer{own: true} }, "peer", Hint, "is an address of this machine", "another machine"},
	{"peer not asked", func(f *facts) { f.peer = &peerAnswer{} }, "peer", Hint, "not asked", "udp port"},
	{"user namespace without rights", func(f *facts) {
		f.forbidden, f.missing = "this is a user namespace", []string{"CAP_BPF"}
		f.auto = nd.DatapathUDP
	}, "capabilities", Hint, "user namespace", "broker"},
	{"silent peer", func(f *facts) { f.peer.err = nd.ErrCanceled }, "peer", Problem, "firewall", "nft list ruleset"},
	{"peer fails otherwise", func(f *facts) { f.peer.err = nd.ErrDeviceNotReady }, "peer", Problem, "could not be asked", "other findings"},
}

// Each case changes one fact of a healthy interface, and exactly one finding reports it.
func TestJudges(t *testing.T) {
	for _, c := range broken {
		f := healthy()
		c.spoil(f)
		r := f.report()
		said := 0
		for _, finding := range r.Findings {
			if finding.Severity == OK {
				continue
			}
			said++
			if finding.Check != c.check || finding.Severity != c.want || !strings.Contains(finding.Found+" "+finding.Why, c.say) || !strings.Contains(finding.Remedy, c.do) {
				t.Errorf("%s: %+v\nwant %s, %s, that says %q and %q", c.name, finding, c.check, c.want, c.say, c.do)
			}
		}
		if said != 1 || r.Works() != (c.want != Problem) {
			t.Errorf("%s: %d findings that are not ok; it works: %v", c.name, said, r.Works())
		}
	}
}

// TestMTUWithoutMultiBuffer: a kernel without multi-buffer support allows an MTU of up to a page.
func TestMTUWithoutMultiBuffer(t *testing.T) {
	for mtu, want := range map[int]Severity{3822: OK, 3823: Problem} {
		f := healthy()
		f.multi, f.nic.MTU, f.cfg.Datapath = false, mtu, nd.DatapathGeneric
		if got, _ := judgeMTU(f); got.Severity != want || want == Problem && !strings.Contains(got.Remedy, "mtu 3822") {
			t.Errorf("MTU %d: %+v", mtu, got)
		}
	}
}

func TestSeverityText(t *testing.T) {
	for _, s := range []Severity{OK, Hint, Problem} {
		text, err := json.Marshal(s)
		var back Severity
		if err != nil || json.Unmarshal(text, &back) != nil || back != s {
			t.Errorf("%s became %s, %v", s, text, err)
		}
	}
	var s Severity
	if s.UnmarshalText([]byte("dire")) == nil {
		t.Error("an unknown severity was taken")
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{100: "100 bytes", 208 << 10: "208 KiB", 80 << 20: "80 MiB", 64 << 30: "64 GiB", 1<<64 - 1: "any amount"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}

// TestBrokerIsAskedAndNotKilled: if a broker holds the interface, no finding recommends to end it.
func TestBrokerIsAskedAndNotKilled(t *testing.T) {
	for asked, want := range map[nd.Datapath]Severity{nd.DatapathAuto: Hint, nd.DatapathGeneric: Problem} {
		f := healthy()
		held(asked, bpf.HeldError{Interface: "eth0", ProgramID: 9, Ours: true, PID: 77, Comm: "ndbroker"})(f)
		got, _ := judgeHolder(f)
		if got.Severity != want || strings.Contains(got.Remedy, "kill") || !strings.Contains(got.Remedy, "/run/ndbroker/eth0") {
			t.Errorf("%s: %+v", asked, got)
		}
	}
}
