package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/host"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/xdp"
)

// This file says which other candidates cannot work either after one has failed.

// refusal is a kind of error.
type refusal struct {
	is      func(error) bool
	says    string                // reason for users; the error follows it
	against func(*Candidate) bool // candidates that would fail for the same reason
}

// wraps returns a function that reports whether an error wraps one of targets.
func wraps(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
}

func everything(*Candidate) bool  { return true }
func ownFrames(c *Candidate) bool { return c.Opener == openSelf && c.Sender == SendXDP }
func ownProgram(c *Candidate) bool {
	return c.Opener == openSelf && c.Receiver != ReceiveSocket
}

// refusals are the kinds of errors, the most specific first. After an error of no kind, all other candidates are tried.
var refusals = []refusal{
	{wraps(udp.ErrPortTaken), "", func(c *Candidate) bool { return c.Datapath() != UDP }}, // UDP may take a port of its own instead
	{wraps(unix.EADDRNOTAVAIL, unix.EMFILE, unix.ENFILE), "", everything},
	{wraps(xdp.ErrPermission), "AF_XDP needs privileges that this process lacks", ownFrames},
	{wraps(xdp.ErrLockedMemory), "AF_XDP needs to lock memory", ownFrames},
	{wraps(xdp.ErrNotSupported), "AF_XDP needs a kernel that has it, and permits it", func(c *Candidate) bool { return ownFrames(c) && c.Receiver == receiveXDP }},
	{wraps(bpf.ErrForbidden, bpf.ErrUnsupported), "AF_XDP needs to load an XDP program", ownProgram},
	{wraps(xdp.ErrQueueBusy), "AF_XDP needs the interface's queue", ownFrames},
	{wraps(bpf.ErrHeld), "AF_XDP needs the interface's XDP program", ownFrames},
	{wraps(host.ErrBlind), "AF_XDP and rings need to know the interface", ownProgram},
}

// SocketsOnly reports whether the interface itself makes AF_XDP and rings impossible, whatever privileges the process has.
func SocketsOnly(err error) bool {
	var link *NotEthernetError
	var silent *notSeenError
	return errors.As(err, &link) || errors.As(err, &silent)
}

// says returns the reason why another candidate is opened after AF_XDP failed with err.
func says(err error) string {
	var link *NotEthernetError
	var down *downError
	var silent *notSeenError
	var routed *layer3Error
	var shared *sharedError
	var rights *rightsError
	switch {
	case errors.As(err, &rights):
		return oneLine(err)
	case errors.As(err, &link):
		return fmt.Sprintf("AF_XDP needs Ethernet, and %s is none", link.Name)
	case errors.As(err, &down):
		return fmt.Sprintf("AF_XDP needs an interface that is up when it is opened, and %s was down: set it up (ip link set %s up), and open the adapter again", down.name, down.name)
	case errors.As(err, &silent):
		return fmt.Sprintf("packets to an address of the %s interface %s arrive on others", silent.stack.Kind, silent.stack.Name)
	case errors.As(err, &routed):
		return fmt.Sprintf("what AF_XDP sends is dropped by %s, an ipvlan interface in L3 mode", routed.name)
	case errors.As(err, &shared):
		return shared.Error()
	}
	for _, r := range refusals {
		if r.says != "" && r.is(err) {
			return r.says + ": " + oneLine(err)
		}
	}
	return "AF_XDP was refused: " + oneLine(err)
}

// oneLine returns an error as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

// elsewhere reports whether err is due to the interface, so that no process can open AF_XDP or a ring there now.
func elsewhere(err error) bool {
	var down *downError
	return errors.As(err, &down) || SocketsOnly(err)
}

// RefusedWith returns the text that the failure of a candidate adds to the reason of later candidates.
func (c *Candidate) RefusedWith(err error) string {
	switch {
	case elsewhere(err):
		return ""
	case c.Opener == OpenBroker && c.Sender == SendXDP:
		return oneLine(err)
	case c.Sender == sendSocket:
		return "without a ring: " + oneLine(err)
	}
	for _, r := range refusals {
		if r.says != "" && r.is(err) {
			return r.says + ": " + oneLine(err)
		}
	}
	return fmt.Sprintf("the %s datapath was refused: %s", c.Datapath(), oneLine(err))
}

// Hopeful reports whether a candidate may work after the failures so far.
func (c *Candidate) Hopeful(failed []error) bool {
	offers := false
	for _, err := range failed {
		offers = offers || rings(err)
		for _, r := range refusals {
			if r.is(err) && r.against(c) {
				return false
			}
		}
	}
	return offers || !c.offered
}

// sharedError says that another adapter of this machine has the UDP port.
type sharedError struct{ text string }

func (e *sharedError) Error() string { return e.text }

// rightsError says which capabilities this process lacks. It wraps xdp.ErrPermission.
type rightsError struct {
	what, nic string   // what needs the capabilities, and the interface
	missing   []string // in the form of xdp.MissingCapabilities
}

func (e *rightsError) Error() string {
	var names []string
	for _, m := range e.missing {
		name, _, _ := strings.Cut(m, " ")
		names = append(names, name)
	}
	return fmt.Sprintf("%s needs %s, which this process lacks: run it as root, or do what ndinfo doctor %s says", e.what, strings.Join(names, ", "), e.nic)
}

func (e *rightsError) Unwrap() error { return xdp.ErrPermission }

// lockError says that AF_XDP needs more locked memory than this process may have, or than its memory cgroup leaves. It wraps
// xdp.ErrLockedMemory.
type lockError struct {
	need, limit uint64
	group       string // the cgroup; empty if the limit of locked memory is the reason
	file        string // file that sets the cgroup's limit
}

func (e *lockError) Error() string {
	if e.group != "" {
		return fmt.Sprintf("%d KiB are needed, and the memory cgroup %s leaves %d KiB: raise its limit (%s), or take the udp datapath", e.need>>10, e.group, e.limit>>10, e.file)
	}
	return fmt.Sprintf("%d KiB are needed, and this process may lock %d KiB: grant CAP_IPC_LOCK, or raise the limit (ulimit -l)", e.need>>10, e.limit>>10)
}

func (e *lockError) Unwrap() []error { return []error{xdp.ErrLockedMemory, unix.ENOMEM} }

// These errors are settings of an interface that AF_XDP cannot work with. Foreseen.Refused wraps one of them if it is the reason why
// AF_XDP is impossible.
var (
	ErrQueues = errors.New("AF_XDP needs one socket for each receive queue, and the interface does not allow this")
	ErrMTU    = errors.New("packets of the interface's MTU do not fit into a frame")
)

// unfitError says how an interface must be set for AF_XDP. It wraps ErrQueues or ErrMTU.
type unfitError struct {
	kind error
	text string
}

func (e *unfitError) Error() string { return e.text }
func (e *unfitError) Unwrap() error { return e.kind }

func unfit(kind error, format string, args ...any) error {
	return &unfitError{kind, fmt.Sprintf(format, args...)}
}

// NotEthernetError says that an interface has no link-layer addresses of six bytes.
type NotEthernetError struct {
	Name string
	Addr netip.Addr
}

func (e *NotEthernetError) Error() string {
	return fmt.Sprintf("open %s on interface %s: not an Ethernet interface: choose an address of one that is, or the udp datapath",
		e.Addr, e.Name)
}

// downError says that an interface is down.
type downError struct {
	name string
	addr netip.Addr
}

func (e *downError) Error() string {
	return fmt.Sprintf("open %s on interface %s: the interface is down: set it up (ip link set %s up)", e.addr, e.name, e.name)
}

// notSeenError says that the packets of an interface do not arrive on it.
type notSeenError struct {
	stack *host.Stack
	addr  netip.Addr
}

func (e *notSeenError) Error() string {
	return fmt.Sprintf("open %s on interface %s: packets to it arrive on other interfaces, where neither AF_XDP nor a ring of a %s interface "+
		"gets them: choose an address of the interface that they arrive on, or the udp datapath", e.addr, e.stack.Name, e.stack.Kind)
}

// layer3Error says that an ipvlan interface does not send frames as they are. In modes L3 and L3S it routes packets by the protocol that
// the kernel recorded (ipvlan_process_outbound). It drops packets of an AF_XDP socket, because the kernel recorded no protocol for them.
type layer3Error struct {
	name string
	addr netip.Addr
}

func (e *layer3Error) Error() string {
	return fmt.Sprintf("open %s on interface %s: an ipvlan interface in L3 mode drops what an AF_XDP socket sends: choose the ring datapath or udp, or "+
		"an ipvlan interface in L2 mode", e.addr, e.name)
}
