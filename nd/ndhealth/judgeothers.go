package ndhealth

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/ndxdp/ndxdp/nd"
)

func judgeHolder(f *facts) (Finding, bool) {
	h := f.holder
	switch {
	case f.cfg.Datapath.OverSockets() || h == nil && !f.overXDP():
		return Finding{}, false
	case f.holderError != nil:
		return hint(fmt.Sprintf("the kernel does not tell: %v", f.holderError), "another XDP program would be in the way",
			"ip link show "+f.nic.Name), true
	case h == nil:
		return ok("no XDP program is attached to %s", f.nic.Name), true
	}
	found := fmt.Sprintf("XDP program %d %q is attached in %s mode", h.ProgramID, h.ProgramName, h.HolderMode)
	if h.PID != 0 {
		found += fmt.Sprintf(" by process %d (%s)", h.PID, h.Comm)
	}
	if f.byTCX() {
		return hint(found, "packets arrive by a program at tcx, which it leaves its place; but for an XDP program in generic mode, and on veth, the kernel copies each packet once more",
			h.Remedy()+", when nobody needs it"), true
	}
	if h.Ours && h.Comm == "ndbroker" {
		why := "a broker owns AF_XDP here, and leases it to one process at a time"
		remedy := fmt.Sprintf("use --datapath auto, which asks it at /run/ndbroker/%s; where it listens elsewhere, name its socket (--broker)", f.nic.Name)
		if f.cfg.Datapath == nd.DatapathAuto {
			return hint(found, why, remedy), true
		}
		return problem(found, why, remedy), true
	}
	if h.Ours && h.PID != 0 {
		return f.serious(found, "it is an ND adapter, and one process at a time uses AF_XDP on an interface",
			h.Remedy()+", when that process is not needed; else use --datapath auto, which takes a ring or plain sockets beside it"), true
	}
	return f.serious(found, "an interface has one XDP program, and a foreign program is never replaced",
		h.Remedy()+", when nobody needs it; else use --datapath auto, which takes a ring or plain sockets beside it"), true
}

func judgeRedirection(f *facts) (Finding, bool) {
	if len(f.running) == 0 {
		return Finding{}, false
	}
	for _, p := range f.running {
		if p.vanished > 0 {
			return problem(fmt.Sprintf("%d packets for process %d (%q) were redirected to its sockets and never came", p.vanished, p.PID, p.Command),
				"the interface, its driver or what is stacked on it loses what XDP redirects",
				"use --datapath generic, or udp when it goes on; an address of the interface that packets arrive on"), true
		}
	}
	return ok("what was redirected to the sockets of %d running adapters came there", len(f.running)), true
}

func judgeResetKey(f *facts) (Finding, bool) {
	if f.keyError != nil {
		return hint(fmt.Sprintf("there is no key of the host: %v", f.keyError),
			"peers notice only after seconds of silence that a process was killed and started again",
			"log in so that XDG_RUNTIME_DIR is set; else let /run/ndxdp (for root) or $XDG_RUNTIME_DIR/ndxdp and reset.key in it belong to this user, with modes 0700 and 0600"), true
	}
	return ok("the key of the host is there: peers notice at once that a process restarted"), true
}

func judgePort(f *facts) (Finding, bool) {
	if !f.addr.IsValid() {
		return Finding{}, false
	}
	at := fmt.Sprintf("UDP port %d of %s", f.cfg.UDPPort, f.addr)
	its := at
	if f.port.holder != "" {
		its += ", with " + f.port.holder + ","
	}
	switch asked := f.cfg.Datapath; {
	case f.port.squatter != "":
		return problem(fmt.Sprintf("the name of %s is squatted by %s", at, f.port.squatter),
			"adapters of an address agree by that name which of them receives requests of peers, and its holder does not take part: each adapter waits before it opens, and none notices when the receiving adapter ends",
			"end that process (ss -xap shows whose @ndxdp/"+netip.AddrPortFrom(f.addr, f.cfg.UDPPort).String()+"/udp is)"), true
	case f.port.shared && asked != nd.DatapathAuto && !asked.OverSockets():
		return problem(its+" is that of another adapter of this machine", "the first adapter of an address has it, and AF_XDP",
			"use --datapath auto, which takes a ring or plain sockets beside it; or end the process that has it (ss -ulpn sport = :"+strconv.Itoa(int(f.cfg.UDPPort))+")"), true
	case f.port.shared:
		return hint(its+" is that of another adapter of this machine", "the first adapter of an address has it, and AF_XDP; later ones receive on UDP ports of their own, by a ring or plain sockets",
			"none is needed; for AF_XDP, end the process that has it (ss -ulpn sport = :"+strconv.Itoa(int(f.cfg.UDPPort))+")"), true
	case f.port.err != nil:
		return hint(fmt.Sprintf("the kernel does not say which process has %s: %v", at, f.port.err), "an adapter may find it taken",
			"ss -ulpn sport = :"+strconv.Itoa(int(f.cfg.UDPPort))), true
	case !f.port.taken:
		return ok("%s is free", at), true
	}
	found := at + " is taken"
	if f.port.used != "" {
		found += " by " + f.port.used
	}
	return problem(found, "the requests of peers go to this port, and a program has it that is no adapter",
		fmt.Sprintf("stop that program (ss -ulpn sport = :%d); or use one other port here and at every peer, such as --udp-port %d", f.cfg.UDPPort, otherPort(f.cfg.UDPPort))), true
}

// otherPort is a suggestion for another port.
func otherPort(port uint16) uint16 {
	if port == 1<<16-1 {
		return port - 1
	}
	return port + 1
}

func judgePeer(f *facts) (Finding, bool) {
	p := f.peer
	if p == nil {
		return Finding{}, false
	}
	peer, name := f.cfg.Peer, f.nic.Name
	switch err := p.err; {
	case !f.reaches(f.addr):
		return problem(fmt.Sprintf("%s was not asked, because %s is asked about %s", peer, name, f.addr),
			"an adapter reaches addresses of its own family, IPv4 or IPv6, link-local or not", "ip address add ADDRESS/PREFIX dev "+name), true
	case p.own:
		return hint(fmt.Sprintf("%s is an address of this machine, and was not asked", peer), "packets to it do not leave the machine, so an answer says nothing of the network",
			"name an address of another machine: --peer ADDRESS"), true
	case !p.asked:
		return hint(fmt.Sprintf("%s was not asked", peer), "our UDP port is taken", "free it first: see udp port"), true
	case errors.Is(err, syscall.ECONNREFUSED):
		return problem(fmt.Sprintf("%s is there, and no process has UDP port %d on it", peer, f.cfg.UDPPort),
			"no adapter is open there, or it has another UDP port", "open one with the same UDP port on both sides (--udp-port)"), true
	case err == nil, errors.Is(err, nd.ErrConnectionRefused):
		return ok("an adapter answers at %s", peer), true
	case errors.Is(err, nd.ErrNetworkUnreachable):
		return problem(err.Error(), "there is no way to the peer from here", fmt.Sprintf("ip route get fibmatch %s from %s oif %s", peer, f.addr, f.nic.Name)), true // without fibmatch it would show a cloned route
	case errors.Is(err, nd.ErrHostUnreachable):
		return problem(err.Error(), "no host on this network has the peer's address",
			fmt.Sprintf("check that the peer is up and on the same network: ip neigh show %s dev %s", peer, f.nic.Name)), true
	case errors.Is(err, nd.ErrCanceled), errors.Is(err, nd.ErrIOTimeout):
		return problem(fmt.Sprintf("%s does not answer on UDP port %d", peer, f.cfg.UDPPort),
			"a firewall drops the port, or what has it there is no ND adapter",
			fmt.Sprintf("on the peer: ss -ulpn sport = :%d, and nft list ruleset", f.cfg.UDPPort)), true
	default:
		return problem(err.Error(), "the peer could not be asked", "see the other findings"), true
	}
}
