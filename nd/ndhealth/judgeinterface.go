package ndhealth

import (
	"fmt"
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/nd"
)

// defaultArena is the default of nd.AdapterConfig.ArenaBytes.
const defaultArena = 4 << 20

func judgeInterface(f *facts) (Finding, bool) {
	name := f.nic.Name
	switch {
	case !f.nic.Up:
		return problem(name+" is down", "nothing is sent or received", "ip link set "+name+" up"), true
	case !f.addr.IsValid():
		return problem(name+" has no address", "an adapter is opened by an address", "ip address add ADDRESS/PREFIX dev "+name), true
	case !f.carrier:
		return problem(name+" is up, but has no carrier", "nothing is sent or received",
			"plug the cable in, or set the peer interface up (ip link set PEER up)"), true
	}
	return ok("%s is up, with address %s", name, f.addr), true
}

func judgeDriver(f *facts) (Finding, bool) {
	driver := f.nic.Driver
	if driver == "" {
		driver = "a driver without a name"
	}
	native := f.cfg.Datapath == nd.DatapathNative
	switch {
	case f.cfg.Datapath == nd.DatapathRing && plan.SocketsOnly(f.unopened):
		return problem(f.unopened.Error(), "a ring needs an Ethernet interface that packets arrive on", "use --datapath udp, or another interface"), true
	case f.overXDP() && len(f.nic.MAC) != 6:
		return problem(f.nic.Name+" is no Ethernet interface", "AF_XDP needs Ethernet", "use --datapath udp, or another interface"), true
	case f.unsuited != nil:
		return problem(f.unsuited.Error(), "packets would vanish without a trace", "use --datapath auto"), true
	case native && f.featuresKnown && f.features&(featureBasic|featureRedirect) != featureBasic|featureRedirect:
		return problem(driver+" has no native XDP", "the native datapath attaches in the driver", "use --datapath generic or auto"), true
	case native && f.features&featureZeroCopy != 0:
		return ok("%s has native XDP and zero-copy sockets", driver), true
	case native && f.featuresKnown:
		return ok("%s has native XDP; sockets copy", driver), true
	}
	if f.cfg.Datapath == nd.DatapathAuto {
		return ok("%s", driver), true // the report names the datapath of auto, and the reason
	}
	return ok("%s; auto takes %s", driver, f.auto), true
}

func judgeMTU(f *facts) (Finding, bool) {
	name, mtu := f.nic.Name, f.nic.MTU
	least := plan.LeastMTU(f.addr)
	found := fmt.Sprintf("MTU %d", mtu)
	native := f.overNative()
	switch {
	case mtu < least:
		return problem(found, fmt.Sprintf("packets of a handshake need %d", least), fmt.Sprintf("ip link set %s mtu %d", name, max(least, 1500))), true
	case f.wants(plan.ErrMTU) && !f.multi && mtu > plan.SingleBufferMTU:
		return f.serious(found, "larger packets than a page need AF_XDP multi-buffer, which this kernel lacks (Linux 6.6 has it)",
			fmt.Sprintf("ip link set %s mtu %d", name, plan.SingleBufferMTU)), true
	case native && f.featuresKnown && f.features&featureFrags == 0 && mtu > plan.SingleBufferMTU:
		return f.unlessFallback(found, "this driver's native XDP takes no packets of several pages",
			fmt.Sprintf("ip link set %s mtu %d, or use --datapath generic", name, plan.SingleBufferMTU)), true
	}
	return ok("%s: packets of up to %d bytes; peers agree on the smaller MTU", found, mtu), true
}

// unlessFallback returns a problem if native mode was requested, and a hint if auto falls back to generic mode.
func (f *facts) unlessFallback(found, why, remedy string) Finding {
	if f.cfg.Datapath == nd.DatapathNative {
		return problem(found, why, remedy)
	}
	return hint(found, why+"; auto takes generic mode then", remedy)
}

// overNative reports whether native mode is requested, or selected by auto.
func (f *facts) overNative() bool {
	return f.cfg.Datapath == nd.DatapathNative || f.cfg.Datapath == nd.DatapathAuto && f.auto == nd.DatapathNative
}

// pinned returns how many bytes the frames of all queues together take at most.
func (f *facts) pinned() uint64 {
	kind := plan.Datapath(f.cfg.Datapath)
	if f.cfg.Datapath == nd.DatapathAuto {
		kind = plan.Datapath(f.auto)
	}
	return uint64(plan.Pinned(f.nic.RxQueues, kind))
}

// leastLocked returns the bytes that an adapter must lock for AF_XDP. If zero-copy needs too many, native mode copies.
func leastLocked(queues int, kind plan.Datapath) uint64 {
	if kind == plan.Native {
		kind = plan.Generic
	}
	return uint64(plan.Pinned(queues, kind)) + defaultArena
}

func judgeQueues(f *facts) (Finding, bool) {
	rx, tx := f.nic.RxQueues, f.nic.TxQueues
	found := fmt.Sprintf("%d receive and %d transmit queues, %d processors", rx, tx, f.cores)
	switch {
	case !f.wants(plan.ErrQueues):
		return Finding{}, false
	case rx > plan.MaxQueues:
		return f.serious(found, fmt.Sprintf("every receive queue needs an engine, and there are %d at most", plan.MaxQueues), setQueues(f, f.cores)), true
	case tx < rx:
		return f.serious(found, "each engine sends on the queue that it receives from, and the kernel never sends from one that has none",
			setQueues(f, max(tx, 1))+", or give the virtual machine no more queues than CPUs"), true
	case rx > f.cores && rx > 1:
		return hint(found, fmt.Sprintf("an engine for every queue wants a processor, and pins %s",
			size(f.pinned()/uint64(rx))), setQueues(f, f.cores)), true
	}
	return ok("%s: one engine for each receive queue", found), true
}

func judgeSpread(f *facts) (Finding, bool) {
	switch used := len(f.spread); {
	case used == 0 || f.nic.RxQueues < 2:
		return Finding{}, false
	case used < f.nic.RxQueues:
		return hint(fmt.Sprintf("the indirection table uses %d of %d receive queues", used, f.nic.RxQueues),
			"the engines of the others idle", fmt.Sprintf("ethtool -X %s equal %d", f.nic.Name, f.nic.RxQueues)), true
	default:
		return ok("the indirection table uses all %d receive queues", f.nic.RxQueues), true
	}
}

// fewDescriptors is the size of a receive ring that a burst of 512 packets overruns.
const fewDescriptors = 512

func judgeRings(f *facts) (Finding, bool) {
	r := f.rings
	found := fmt.Sprintf("%d receive descriptors of %d, %d transmit of %d", r.rx, r.rxMax, r.tx, r.txMax)
	switch {
	case r.rxMax == 0:
		return Finding{}, false
	case r.rx < fewDescriptors && r.rx < r.rxMax:
		return hint(found, "a burst overruns a short ring, and lost packets are sent again",
			fmt.Sprintf("ethtool -G %s rx %d", f.nic.Name, min(r.rxMax, 4*fewDescriptors))), true
	}
	return ok("%s", found), true
}

func judgeBuffers(f *facts) (Finding, bool) {
	b, want := f.buffers, plan.SocketBuffer
	found := fmt.Sprintf("sockets get %s to send and %s to receive, of %s", size(uint64(b.send)), size(uint64(b.receive)), size(uint64(want)))
	// AF_XDP has receive rings of its own, so only sending uses a socket buffer.
	if b.send >= want && (f.overXDP() || b.receive >= want) {
		return ok("%s", found), true
	}
	remedy := fmt.Sprintf("sysctl -w net.core.wmem_max=%d net.core.rmem_max=%d, or grant CAP_NET_ADMIN", want, want)
	return hint(found, "a window of large packets does not fit: sending stalls, receiving drops", remedy), true
}

func judgeQdisc(f *facts) (Finding, bool) {
	shaping := slices.Contains([]string{"tbf", "netem", "htb", "hfsc", "cake", "drr", "qfq", "sfb", "red", "codel"}, f.qdisc)
	switch {
	case f.qdisc == "":
		return Finding{}, false
	case shaping && f.overXDP():
		return hint("qdisc "+f.qdisc, "AF_XDP sends past it: ND packets are neither shaped nor limited by it",
			"use --datapath udp to obey it, or shape at the switch"), true
	case shaping:
		return hint("qdisc "+f.qdisc, "it delays or drops ND packets", "tc qdisc del dev "+f.nic.Name+" root"), true
	}
	return ok("qdisc %s", f.qdisc), true
}

func judgeNAPI(f *facts) (Finding, bool) {
	switch {
	case f.napi == nil || !f.overXDP():
		return Finding{}, false
	case f.napi.DeferHardIRQs == 0 && f.napi.FlushTimeout == 0:
		return ok("napi_defer_hard_irqs and gro_flush_timeout are 0"), true
	}
	knobs := "/sys/class/net/" + f.nic.Name + "/"
	return hint(fmt.Sprintf("napi_defer_hard_irqs is %d, gro_flush_timeout %v", f.napi.DeferHardIRQs, f.napi.FlushTimeout.Round(time.Microsecond)),
		"an idle interface answers late; a program that died may have left them so",
		"echo 0 | tee "+knobs+"napi_defer_hard_irqs "+knobs+"gro_flush_timeout"), true
}

func judgeIOMMU(f *facts) (Finding, bool) {
	switch {
	case f.iommu == "" || !f.overXDP():
		return Finding{}, false
	case f.iommu == "identity":
		return ok("the IOMMU passes DMA through"), true
	}
	return hint("the IOMMU translates DMA ("+f.iommu+")", "the driver maps every packet, which costs throughput with copying sockets",
		"boot with iommu=pt"), true
}
