package ndhealth

import (
	"fmt"
	"strings"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/nd"
)

// check is a named judge. A judge depends on facts only. looked is false if the check does not apply.
type check struct {
	name  string
	judge func(*facts) (f Finding, looked bool)
}

// checks in the order of reports: machine, interface, other programs, peer.
var checks = []check{
	{"kernel", judgeKernel},
	{"netlink", judgeNetlink},
	{"capabilities", judgeCapabilities},
	{"locked memory", judgeMemlock},
	{"interface", judgeInterface},
	{"driver", judgeDriver},
	{"mtu", judgeMTU},
	{"queues", judgeQueues},
	{"rss", judgeSpread},
	{"nic rings", judgeRings},
	{"socket buffers", judgeBuffers},
	{"qdisc", judgeQdisc},
	{"xdp program", judgeHolder},
	{"redirection", judgeRedirection},
	{"shared link", judgeSharedLink},
	{"udp port", judgePort},
	{"firewall", judgeFirewall},
	{"napi", judgeNAPI},
	{"iommu", judgeIOMMU},
	{"memory", judgeMemory},
	{"reset key", judgeResetKey},
	{peerCheck, judgePeer},
}

// serious returns a problem if AF_XDP was requested, and a hint if nd.DatapathAuto does without it.
func (f *facts) serious(found, why, remedy string) Finding {
	switch {
	case f.cfg.Datapath == nd.DatapathRing && !f.ring: // like AF_XDP, it needs a program
		return problem(found, why, remedy)
	case f.cfg.Datapath.OverSockets():
		return ok("%s; the %s datapath needs none of it", found, f.cfg.Datapath)
	case f.cfg.Datapath == nd.DatapathAuto && plan.SocketsOnly(f.forgone):
		return ok("%s; %s has plain sockets only, which need none of it", found, f.nic.Name)
	case f.cfg.Datapath == nd.DatapathAuto && f.refused == nil:
		meanwhile := "plain UDP sockets serve meanwhile, slower"
		if f.ring {
			meanwhile = "plain UDP sockets and a ring serve meanwhile, slower"
		}
		return hint(found, why+"; "+meanwhile, remedy)
	}
	return problem(found, why, remedy)
}

func judgeKernel(f *facts) (Finding, bool) {
	found := "Linux " + f.kernel
	switch {
	case f.xdpError != nil:
		return f.serious(fmt.Sprintf("%s: %v", found, f.xdpError), "the kernel has no AF_XDP, or a sandbox forbids it",
			"permit AF_XDP where there is a sandbox (systemd: RestrictAddressFamilies; containers: seccomp); else boot Linux 6.6 or later with CONFIG_XDP_SOCKETS=y, or use --datapath udp"), true
	case f.bpfError != nil:
		return f.serious(fmt.Sprintf("%s: %v", found, f.bpfError), "the steering program cannot be loaded",
			"mount /proc where it is missing; else boot Linux 6.6 or later with CONFIG_BPF_SYSCALL=y, or use --datapath udp"), true
	case !f.multi && f.overXDP():
		return hint(found+", without AF_XDP multi-buffer", fmt.Sprintf("the MTU can be %d at most", plan.SingleBufferMTU),
			"boot Linux 6.6 or later for a larger one"), true
	}
	return ok("%s has what AF_XDP needs", found), true
}

func judgeNetlink(f *facts) (Finding, bool) {
	found := "netlink sockets are refused: driver features, NIC rings and queues, qdisc, XDP programs, firewall rules and the owner of the UDP port were not examined"
	remedy := "permit AF_NETLINK (systemd: RestrictAddressFamilies; containers: seccomp)"
	switch {
	case !f.blind:
		return Finding{}, false
	case f.cfg.Datapath == nd.DatapathUDP:
		return hint(found, "what is wrong there shows only in use", remedy), true
	}
	return f.serious(found, "AF_XDP and rings need to know the interface", remedy), true
}

func judgeCapabilities(f *facts) (Finding, bool) {
	if f.forbidden != "" {
		return f.serious(f.forbidden, "AF_XDP and XDP programs need rights of the host",
			"run the program outside of the user namespace or container, or lease AF_XDP from a broker there (docs/OPERATING.md#brokers-and-containers)"), true
	}
	if len(f.missing) == 0 {
		return ok("CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are there"), true
	}
	return f.serious("missing "+strings.Join(f.missing, ", "), "AF_XDP and XDP programs need them",
		"run it as root, or: "+grant), true
}

// grant returns the command that grants the rights for AF_XDP. The program that opens the adapter needs them, not the program that
// examines.
const grant = "sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep PROGRAM, of the program that opens the adapter"

func judgeMemlock(f *facts) (Finding, bool) {
	need := f.pinned() + defaultArena
	least := leastLocked(f.nic.RxQueues, plan.Datapath(f.cfg.Datapath))
	gaveWay := f.cfg.Datapath == nd.DatapathAuto && f.denied != 0
	if gaveWay {
		need, least = f.denied, f.denied
	}
	found := fmt.Sprintf("%s may be pinned, %s are needed", size(f.memlock), size(need))
	why := "the kernel pins the memory of AF_XDP sockets and counts it against the limit of locked memory"
	switch {
	case !f.overXDP() && !gaveWay:
		return Finding{}, false
	case f.lockFree:
		return ok("CAP_IPC_LOCK is there: memory may be pinned without limit"), true
	case f.memlock >= need:
		return ok("%s", found), true
	case f.memlock >= least:
		return hint(found, why+"; sockets of native mode copy meanwhile", "ulimit -l unlimited, or: "+grant), true
	}
	return f.serious(found, why, "ulimit -l unlimited, or: "+grant), true
}

func judgeMemory(f *facts) (Finding, bool) {
	need := f.pinned() + defaultArena
	found := fmt.Sprintf("%d receive queues pin %s, %s are available; pages of 4 KiB, no huge pages needed",
		f.nic.RxQueues, size(need), size(f.available))
	switch {
	case !f.overXDP() || f.available == 0:
		return Finding{}, false
	case need > f.available:
		return problem(found, "opening will fail for want of memory, or something else be killed for it", setQueues(f, max(f.cores, 1))), true
	case need > f.available/2:
		return hint(found, "pinned memory is never swapped out", setQueues(f, max(f.cores, 1))), true
	}
	return ok("%s", found), true
}

// setQueues returns the command that sets the number of queues of each kind to n, or to the maximum.
func setQueues(f *facts, n int) string {
	n = min(n, plan.MaxQueues)
	if f.queuesApart {
		return fmt.Sprintf("ethtool -L %s rx %d tx %d", f.nic.Name, n, n)
	}
	return fmt.Sprintf("ethtool -L %s combined %d", f.nic.Name, n)
}

// size formats a number of bytes.
func size(n uint64) string {
	if n >= 1<<40 {
		return "any amount"
	}
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	i := 0
	for ; n >= 10<<10 && i < len(units)-1; i++ {
		n >>= 10
	}
	return fmt.Sprintf("%d %s", n, units[i])
}
