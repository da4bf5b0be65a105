package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file decides which datapaths are tried on an interface, in which order. It makes no queries. Facts are gathered before (Gather),
// and Open, Prospect and the broker all use the list of List.

// sender is the way in which a device sends packets.
type sender uint8

const (
	sendSocket sender = iota // UDP sockets of the kernel
	SendXDP                  // AF_XDP sockets
)

// receiver is the way in which a device receives packets.
type receiver uint8

const (
	ReceiveSocket receiver = iota // a UDP socket of the kernel
	ReceiveRing                   // a UDP socket, and a ring that a program at tcx fills with small packets
	receiveXDP                    // AF_XDP sockets that an XDP program steers packets to
)

// opener is the process that opens the parts that need privileges.
type opener uint8

const (
	openSelf opener = iota
	OpenBroker
)

// bulkPath is the way in which GSO batches leave.
type bulkPath uint8

const (
	bulkAtPort bulkPath = iota // by the UDP socket that also carries all other packets
	BulkBeside                 // by a UDP socket beside AF_XDP, if the interface segments (addBulk)
)

// Candidate is one datapath that Open may try.
type Candidate struct {
	Sender   sender
	Receiver receiver
	Opener   opener
	Native   bool // the driver runs the XDP program
	Bulk     bulkPath
	// offered means that a ring is requested only if the broker refused AF_XDP and offered rings.
	offered bool
	// Reason says why this candidate is tried. It is empty if the failure of an earlier candidate is the reason.
	Reason string
}

// Datapath returns the datapath that a candidate opens. For a candidate of a broker that chooses the mode itself, it is Auto.
func (c *Candidate) Datapath() Datapath {
	switch {
	case c.Receiver == receiveXDP && c.Opener == OpenBroker:
		return Auto
	case c.Receiver == receiveXDP && c.Native:
		return Native
	case c.Receiver == receiveXDP:
		return Generic
	case c.Sender == SendXDP:
		return TCX
	case c.Receiver == ReceiveRing:
		return Ring
	}
	return UDP
}

// candidateOf returns the candidate by which this process opens datapath r.
func candidateOf(r Datapath, reason string) Candidate {
	c := Candidate{Reason: reason}
	switch r {
	case Generic, Native:
		c.Sender, c.Receiver, c.Native, c.Bulk = SendXDP, receiveXDP, r == Native, BulkBeside
	case TCX:
		c.Sender, c.Receiver, c.Bulk = SendXDP, ReceiveRing, BulkBeside
	case Ring:
		c.Receiver = ReceiveRing
	case Auto, UDP:
	}
	return c
}

// facts has all facts that decide the choice of a datapath.
type facts struct {
	addr   netip.Addr
	nic    xdp.NIC
	stack  host.Stack
	shared string // says that another adapter of this machine has the UDP port; empty if none has
	arena  int    // bytes that an adapter pins in addition to its frames
	named  bool   // the program named a broker
	Client bool   // the datapath is opened for a client of a broker

	Netlink  error  // why the kernel does not report interfaces to this process
	xdp      error  // why this process cannot open an AF_XDP socket
	bpf      error  // why this process cannot load an XDP program
	ring     error  // why this process cannot fill a ring
	held     error  // the holder of the interface's XDP program, as an error
	broker   error  // why the broker at the usual path is not asked
	lockable uint64 // bytes of memory that this process may lock
	room     host.MemoryRoom
	multi    bool // the kernel has AF_XDP multi-buffer
}

// List returns the candidates for the wanted datapath, in the order in which Open tries them. refused is the reason why AF_XDP, or the
// datapath that the program chose, is not in the list. If it is nil, the list begins with this datapath. For Auto the list ends with
// plain sockets.
func List(want Datapath, f *facts) (list []Candidate, refused error) {
	switch {
	case f.named:
		return planNamed(want)
	case want == UDP:
		return []Candidate{candidateOf(UDP, AskedFor)}, nil
	case want == Ring:
		if refused = f.ringless(); refused != nil {
			return nil, fmt.Errorf("open %s on interface %s with a ring: %w", f.addr, f.nic.Name, refused)
		}
		return []Candidate{candidateOf(Ring, AskedFor)}, nil
	}
	list, refused = f.frames(want)
	if want != Auto || f.Client {
		return list, refused
	}
	why := ""
	if refused != nil {
		why = says(refused)
	}
	if elsewhere(refused) {
		return []Candidate{candidateOf(UDP, why)}, refused
	}
	lease := false
	var routed *layer3Error
	switch {
	case errors.As(refused, &routed): // a broker cannot help either
	case f.broker == nil:
		lease = true
		list = append(list, Candidate{Sender: SendXDP, Receiver: receiveXDP, Opener: OpenBroker, Bulk: BulkBeside, Reason: why})
	case why != "":
		why += "; " + f.broker.Error()
	}
	if f.ringless() == nil {
		list = append(list, candidateOf(Ring, why))
	}
	if lease {
		list = append(list, Candidate{Receiver: ReceiveRing, Opener: OpenBroker, offered: true, Reason: why})
	}
	return append(list, candidateOf(UDP, why)), refused
}

// planNamed lists the candidates if the program named a broker. Plain sockets are none of them, because the program wants the broker.
func planNamed(want Datapath) ([]Candidate, error) {
	ring := Candidate{Receiver: ReceiveRing, Opener: OpenBroker, Reason: AskedFor}
	switch want {
	case UDP:
		return nil, errors.New("plain UDP sockets need no broker: choose another datapath, or leave the broker out")
	case Ring:
		return []Candidate{ring}, nil
	default:
		ring.offered, ring.Reason = true, ""
		return []Candidate{{Sender: SendXDP, Receiver: receiveXDP, Opener: OpenBroker, Bulk: BulkBeside}, ring}, nil
	}
}

// frames lists the candidates by which this process opens AF_XDP. The interface is checked before the privileges.
func (f *facts) frames(want Datapath) (list []Candidate, refused error) {
	list, err := f.suited(want)
	if err != nil {
		return nil, err
	}
	if f.shared != "" {
		if want == Auto {
			return nil, &sharedError{f.shared}
		}
		return nil, fmt.Errorf("open %s in %s mode: %w: end the other program, or take another datapath (auto, udp)", f.addr, want, &sharedError{f.shared})
	}
	if err := errors.Join(f.Netlink, f.xdp, f.bpf); err != nil { // each error names what to permit
		return nil, err
	}
	if err := UsableQueues(&f.nic); err != nil {
		return nil, err
	}
	refused = f.held
	list = slices.DeleteFunc(list, func(c Candidate) bool { return f.held != nil && c.Receiver == receiveXDP })
	list = slices.DeleteFunc(list, func(c Candidate) bool {
		need := uint64(leastPinned(f.nic.RxQueues, c.Datapath())) + uint64(f.arena)
		lacks := Pinnable(need, f.lockable, f.room)
		if lacks != nil {
			refused = lacks
		}
		return lacks != nil
	})
	if mtu := usableMTU(&f.nic, f.multi); mtu != nil {
		refused = mtu
		list = slices.DeleteFunc(list, func(c Candidate) bool { return c.Receiver == receiveXDP })
	}
	if len(list) > 0 {
		return list, nil
	}
	return nil, refused
}

// Pinnable returns the reason why this process cannot pin so much memory, or nil.
func Pinnable(need, lockable uint64, room host.MemoryRoom) error {
	switch {
	case need > lockable:
		return &lockError{need: need, limit: lockable}
	case need > room.Left:
		return &lockError{need: need, limit: room.Left, group: room.Group, file: room.Limit}
	}
	return nil
}

// suited lists the candidates of AF_XDP that lose no packets on the interface, without regard to this process's privileges.
func (f *facts) suited(want Datapath) ([]Candidate, error) {
	s, beneath := &f.stack, f.stack.Beneath()
	noRing := f.ringlessXDP()
	switch {
	case s.Loopback || len(f.nic.MAC) != 6:
		return nil, &NotEthernetError{f.nic.Name, f.addr}
	case s.Silent():
		return nil, &notSeenError{s, f.addr}
	case !f.nic.Up:
		return nil, &downError{f.nic.Name, f.addr}
	case s.Layer3:
		return nil, &layer3Error{s.Name, f.addr}
	case want == Native && len(s.Lowers) > 0:
		return nil, fmt.Errorf("open %s on interface %s in native mode: %s, and the kernel drops what a native program redirects "+
			"there: use generic mode", f.addr, s.Name, beneath)
	case want == TCX && noRing != "":
		return nil, fmt.Errorf("open %s on interface %s with a ring at tcx: %s: use another datapath (auto, generic)", f.addr, s.Name, noRing)
	case want != Auto:
		return []Candidate{candidateOf(want, AskedFor)}, nil
	case beneath != "":
		return []Candidate{candidateOf(Generic, beneath+", where native mode loses them")}, nil
	case s.Driver != "veth":
		return []Candidate{candidateOf(Native, otherDriver), candidateOf(Generic, "")}, nil
	case noRing != "":
		return []Candidate{candidateOf(Generic, vethWithoutRing)}, nil
	}
	return []Candidate{candidateOf(TCX, vethDriver), candidateOf(Generic, "")}, nil
}

// ringlessXDP returns the reason why an interface cannot receive by a ring beside AF_XDP. It is empty if the interface can, or if AF_XDP
// is impossible anyway.
func (f *facts) ringlessXDP() string {
	switch {
	case f.Client:
		return "a broker fills rings for plain sockets only"
	case f.nic.RxQueues > 1:
		return fmt.Sprintf("interface %s has %d receive queues, and a ring one reader", f.nic.Name, f.nic.RxQueues)
	case f.xdp == nil && f.bpf == nil && f.ring != nil:
		return f.ring.Error()
	}
	return ""
}

// ringless returns the reason why this process can fill no ring beside plain sockets, or nil.
func (f *facts) ringless() error {
	switch {
	case f.stack.Silent():
		return &notSeenError{&f.stack, f.addr}
	case f.stack.Loopback && !f.Client: // its packets have Ethernet headers
	case f.stack.Loopback || len(f.nic.MAC) != 6:
		return &NotEthernetError{f.nic.Name, f.addr}
	}
	return errors.Join(f.Netlink, f.ring)
}

// rings reports whether a broker refused AF_XDP and offers rings.
func rings(err error) bool {
	var offer *broker.RingsError
	return errors.As(err, &offer)
}
