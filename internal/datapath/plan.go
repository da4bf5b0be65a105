package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file decides which datapaths are tried on an interface, in which order. It asks nobody: facts are gathered before (gather), and Open, Prospect and the
// broker all take what plan lists.

// sender is the half of a device by which packets leave.
type sender uint8

const (
	sendSocket sender = iota // UDP sockets of the kernel
	sendXDP                  // AF_XDP sockets
)

// receiver is the half of a device by which packets arrive.
type receiver uint8

const (
	receiveSocket receiver = iota // a UDP socket of the kernel
	receiveRing                   // that, and a ring that a program at tcx fills with small packets
	receiveXDP                    // AF_XDP sockets that an XDP program steers packets to
)

// opener is the process that opens what takes privileges.
type opener uint8

const (
	openSelf opener = iota
	openBroker
)

// bulkPath is how runs of large packets leave.
type bulkPath uint8

const (
	bulkAtPort bulkPath = iota // by the UDP socket that has all other packets, too
	bulkBeside                 // by a UDP socket beside AF_XDP, where the interface segments (addBulk)
)

// candidate is one datapath that Open may try.
type candidate struct {
	sender   sender
	receiver receiver
	opener   opener
	native   bool // the driver runs the XDP program
	bulk     bulkPath
	// offered says that a ring is asked for only if the broker refused AF_XDP and offered rings.
	offered bool
	// reason says why this candidate is tried; empty when only the failure of an earlier candidate says so.
	reason string
}

// rung is the datapath's name. A broker that opens AF_XDP chooses among its names: then it is RungAuto.
func (c *candidate) rung() Rung {
	switch {
	case c.receiver == receiveXDP && c.opener == openBroker:
		return RungAuto
	case c.receiver == receiveXDP && c.native:
		return RungNative
	case c.receiver == receiveXDP:
		return RungGeneric
	case c.sender == sendXDP:
		return RungTCX
	case c.receiver == receiveRing:
		return RungRing
	}
	return RungUDP
}

// candidateOf is the candidate of this process with a name.
func candidateOf(r Rung, reason string) candidate {
	c := candidate{reason: reason}
	switch r {
	case RungGeneric, RungNative:
		c.sender, c.receiver, c.native, c.bulk = sendXDP, receiveXDP, r == RungNative, bulkBeside
	case RungTCX:
		c.sender, c.receiver, c.bulk = sendXDP, receiveRing, bulkBeside
	case RungRing:
		c.receiver = receiveRing
	case RungAuto, RungUDP:
	}
	return c
}

// facts is everything that the choice of a datapath looks at.
type facts struct {
	addr   netip.Addr
	nic    xdp.NIC
	stack  host.Stack
	shared string // says that another adapter of this machine has the UDP port; empty when none has
	arena  int    // bytes that an adapter pins besides its frames
	named  bool   // the program named a broker
	client bool   // it is opened for a client of a broker

	netlink  error  // why the kernel does not tell this process of its interfaces
	xdp      error  // why this process may open no AF_XDP socket
	bpf      error  // why this process may load no XDP program
	ring     error  // why this process may fill no ring
	held     error  // who has the interface's XDP program
	broker   error  // why no broker is asked at the usual place
	lockable uint64 // bytes of memory that this process may lock
	room     host.MemoryRoom
	multi    bool // the kernel has AF_XDP multi-buffer
}

// plan lists what Open tries for a datapath that is wanted, in this order. refused says what keeps AF_XDP, or the datapath that was asked for, from the list; without it
// the list has that first. For RungAuto the list ends with plain sockets.
func plan(want Rung, f *facts) (list []candidate, refused error) {
	switch {
	case f.named:
		return planNamed(want)
	case want == RungUDP:
		return []candidate{candidateOf(RungUDP, askedFor)}, nil
	case want == RungRing:
		if refused = f.ringless(); refused != nil {
			return nil, fmt.Errorf("open %s on interface %s with a ring: %w", f.addr, f.nic.Name, refused)
		}
		return []candidate{candidateOf(RungRing, askedFor)}, nil
	}
	list, refused = f.frames(want)
	if want != RungAuto || f.client {
		return list, refused
	}
	why := ""
	if refused != nil {
		why = says(refused)
	}
	if elsewhere(refused) {
		return []candidate{candidateOf(RungUDP, why)}, refused
	}
	lease := false
	var routed *layer3Error
	switch {
	case errors.As(refused, &routed): // no broker can do what we cannot
	case f.broker == nil:
		lease = true
		list = append(list, candidate{sender: sendXDP, receiver: receiveXDP, opener: openBroker, bulk: bulkBeside, reason: why})
	case why != "":
		why += "; " + f.broker.Error()
	}
	if f.ringless() == nil {
		list = append(list, candidateOf(RungRing, why))
	}
	if lease {
		list = append(list, candidate{receiver: receiveRing, opener: openBroker, offered: true, reason: why})
	}
	return append(list, candidateOf(RungUDP, why)), refused
}

// planNamed lists what is asked of a broker that the program named: a program that names a broker wants no plain sockets.
func planNamed(want Rung) ([]candidate, error) {
	ring := candidate{receiver: receiveRing, opener: openBroker, reason: askedFor}
	switch want {
	case RungUDP:
		return nil, errors.New("plain UDP sockets need no broker: choose another datapath, or leave the broker out")
	case RungRing:
		return []candidate{ring}, nil
	default:
		ring.offered, ring.reason = true, ""
		return []candidate{{sender: sendXDP, receiver: receiveXDP, opener: openBroker, bulk: bulkBeside}, ring}, nil
	}
}

// frames lists the ways in which this process opens AF_XDP. The interface is judged before the rights.
func (f *facts) frames(want Rung) (list []candidate, refused error) {
	list, err := f.suited(want)
	if err != nil {
		return nil, err
	}
	if f.shared != "" {
		if want == RungAuto {
			return nil, &sharedError{f.shared}
		}
		return nil, fmt.Errorf("open %s in %s mode: %w: end the other program, or take another datapath (auto, udp)", f.addr, want, &sharedError{f.shared})
	}
	if err := errors.Join(f.netlink, f.xdp, f.bpf); err != nil { // each names what to permit
		return nil, err
	}
	if err := usableQueues(&f.nic); err != nil {
		return nil, err
	}
	refused = f.held
	list = slices.DeleteFunc(list, func(c candidate) bool { return f.held != nil && c.receiver == receiveXDP })
	list = slices.DeleteFunc(list, func(c candidate) bool {
		need := uint64(leastPinned(f.nic.RxQueues, c.rung())) + uint64(f.arena)
		lacks := pinnable(need, f.lockable, f.room)
		if lacks != nil {
			refused = lacks
		}
		return lacks != nil
	})
	if mtu := usableMTU(&f.nic, f.multi); mtu != nil {
		refused = mtu
		list = slices.DeleteFunc(list, func(c candidate) bool { return c.receiver == receiveXDP })
	}
	if len(list) > 0 {
		return list, nil
	}
	return nil, refused
}

// pinnable says why this process cannot pin so much memory; nil when it can.
func pinnable(need, lockable uint64, room host.MemoryRoom) error {
	switch {
	case need > lockable:
		return &lockError{need: need, limit: lockable}
	case need > room.Left:
		return &lockError{need: need, limit: room.Left, group: room.Group, file: room.Limit}
	}
	return nil
}

// suited lists the ways of AF_XDP that lose no packets on the interface, whatever this process may do.
func (f *facts) suited(want Rung) ([]candidate, error) {
	s, beneath := &f.stack, f.stack.Beneath()
	noRing := f.ringlessXDP()
	switch {
	case s.Loopback || len(f.nic.MAC) != 6:
		return nil, &notEthernetError{f.nic.Name, f.addr}
	case s.Silent():
		return nil, &notSeenError{s, f.addr}
	case !f.nic.Up:
		return nil, &downError{f.nic.Name, f.addr}
	case s.Layer3:
		return nil, &layer3Error{s.Name, f.addr}
	case want == RungNative && len(s.Lowers) > 0:
		return nil, fmt.Errorf("open %s on interface %s in native mode: %s, and the kernel drops what a native program redirects "+
			"there: use generic mode", f.addr, s.Name, beneath)
	case want == RungTCX && noRing != "":
		return nil, fmt.Errorf("open %s on interface %s with a ring at tcx: %s: use another datapath (auto, generic)", f.addr, s.Name, noRing)
	case want != RungAuto:
		return []candidate{candidateOf(want, askedFor)}, nil
	case beneath != "":
		return []candidate{candidateOf(RungGeneric, beneath+", where native mode loses them")}, nil
	case s.Driver != "veth":
		return []candidate{candidateOf(RungNative, otherDriver), candidateOf(RungGeneric, "")}, nil
	case noRing != "":
		return []candidate{candidateOf(RungGeneric, vethWithoutRing)}, nil
	}
	return []candidate{candidateOf(RungTCX, vethDriver), candidateOf(RungGeneric, "")}, nil
}

// ringlessXDP says why an interface cannot receive by a ring beside AF_XDP; empty when it can, or when AF_XDP cannot be had anyway.
func (f *facts) ringlessXDP() string {
	switch {
	case f.client:
		return "a broker fills rings for plain sockets only"
	case f.nic.RxQueues > 1:
		return fmt.Sprintf("interface %s has %d receive queues, and a ring one reader", f.nic.Name, f.nic.RxQueues)
	case f.xdp == nil && f.bpf == nil && f.ring != nil:
		return f.ring.Error()
	}
	return ""
}

// ringless says why plain sockets can have no ring that this process fills; nil when they can.
func (f *facts) ringless() error {
	switch {
	case f.stack.Silent():
		return &notSeenError{&f.stack, f.addr}
	case f.stack.Loopback || len(f.nic.MAC) != 6:
		return &notEthernetError{f.nic.Name, f.addr}
	}
	return errors.Join(f.netlink, f.ring)
}

// rings says that a broker refused AF_XDP and offers rings.
func rings(err error) bool {
	var offer *broker.RingsError
	return errors.As(err, &offer)
}
