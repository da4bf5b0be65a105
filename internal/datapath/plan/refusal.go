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

// This file says what the failure of one candidate means for the others.

// refusal is a kind of error.
type refusal struct {
	is      func(error) bool
	says    string                // to people; the error follows
	against func(*Candidate) bool // candidates that would fail likewise
}

// wraps makes a refusal's is for any of some errors.
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

// refusals are the kinds of errors, the most telling first. An error of no kind lets everything else be tried.
var refusals = []refusal{
	{wraps(udp.ErrPortTaken), "", func(c *Candidate) bool { return c.Datapath() != UDP }}, // which has a port of its own where it knows who is first by nothing else
	{wraps(unix.EADDRNOTAVAIL, unix.EMFILE, unix.ENFILE), "", everything},
	{wraps(xdp.ErrPermission), "AF_XDP needs privileges that this process lacks", ownFrames},
	{wraps(xdp.ErrLockedMemory), "AF_XDP needs to lock memory", ownFrames},
	{wraps(xdp.ErrNotSupported), "AF_XDP needs a kernel that has it, and permits it", func(c *Candidate) bool { return ownFrames(c) && c.Receiver == receiveXDP }},
	{wraps(bpf.ErrForbidden, bpf.ErrUnsupported), "AF_XDP needs to load an XDP program", ownProgram},
	{wraps(xdp.ErrQueueBusy), "AF_XDP needs the interface's queue", ownFrames},
	{wraps(bpf.ErrHeld), "AF_XDP needs the interface's XDP program", ownFrames},
	{wraps(host.ErrBlind), "AF_XDP and rings need to know the interface", ownProgram},
}

// SocketsOnly says that the interface itself keeps AF_XDP and rings away: no right of the process changes that.
func SocketsOnly(err error) bool {
	var link *NotEthernetError
	var silent *notSeenError
	return errors.As(err, &link) || errors.As(err, &silent)
}

// says is why something else is opened, where AF_XDP failed with err.
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

// oneLine is an error in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }

// elsewhere says that err is about what the interface is: nobody can open AF_XDP or a ring there now.
func elsewhere(err error) bool {
	var down *downError
	return errors.As(err, &down) || SocketsOnly(err)
}

// RefusedWith is what the failure of a candidate adds to the reason of those behind it.
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

// Hopeful says that the failures so far let a candidate be tried.
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

// rightsError says which capabilities this process lacks. It matches xdp.ErrPermission.
type rightsError struct {
	what, nic string   // that needs them, on an interface
	missing   []string // as xdp.MissingCapabilities has them
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

// lockError says that AF_XDP needs more locked memory than this process may have, or than its memory cgroup leaves. It matches xdp.ErrLockedMemory.
type lockError struct {
	need, limit uint64
	group       string // the cgroup; empty for the limit of locked memory
	file        string // that sets the cgroup's limit
}

func (e *lockError) Error() string {
	if e.group != "" {
		return fmt.Sprintf("%d KiB are needed, and the memory cgroup %s leaves %d KiB: raise its limit (%s), or take the udp datapath", e.need>>10, e.group, e.limit>>10, e.file)
	}
	return fmt.Sprintf("%d KiB are needed, and this process may lock %d KiB: grant CAP_IPC_LOCK, or raise the limit (ulimit -l)", e.need>>10, e.limit>>10)
}

func (e *lockError) Unwrap() []error { return []error{xdp.ErrLockedMemory, unix.ENOMEM} }

// Settings of an interface that AF_XDP cannot work with. Foreseen.Refused matches one of them where it is what keeps AF_XDP away.
var (
	ErrQueues = errors.New("the queues cannot have a socket each")
	ErrMTU    = errors.New("packets of the MTU do not fit into a frame")
)

// unfitError says how an interface must be set for AF_XDP. It matches ErrQueues or ErrMTU.
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
// the kernel recorded (ipvlan_process_outbound). It drops packets of an AF_XDP socket, because they have none.
type layer3Error struct {
	name string
	addr netip.Addr
}

func (e *layer3Error) Error() string {
	return fmt.Sprintf("open %s on interface %s: an ipvlan interface in L3 mode drops what an AF_XDP socket sends: choose the ring datapath or udp, or "+
		"an ipvlan interface in L2 mode", e.addr, e.name)
}
