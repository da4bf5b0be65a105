package datapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// The bounds of neighbour resolution (ND specification 7.4: an unresolved neighbour is unreachable after 3 s).
const (
	resolveTimeout = 3 * time.Second
	resolveFirst   = time.Millisecond
	resolveMax     = 50 * time.Millisecond
	// resolvedFor is how long an answer is valid. The kernel takes 50 to 100 µs for an answer, which would limit a host that opens many
	// connections to one peer. Within a second the answer is mostly the same; if it is not, the handshake gets no answer.
	resolvedFor = time.Second
)

// ErrNoRoute and ErrNoNeighbour are the two ways in which a peer cannot be reached; ErrNotOneHost says that the address
// can be no peer.
var (
	ErrNoRoute     = errors.New("no route")
	ErrNoNeighbour = errors.New("no answer to neighbour resolution")
	ErrNotOneHost  = errors.New("a broadcast or multicast address")
)

// neighbours asks the kernel for routes and neighbours of an address on an interface. The answers are kept in a netState.
type neighbours struct {
	kernel *kernel
	index  int
	vrf    int // index of the VRF that the interface belongs to or is, 0 for none
	local  netip.Addr
	now    clock.Source
	// anywhere lets routes lead over any interface, of the VRF if there is one.
	anywhere bool
}

// newNeighbours asks for the ways from an address on an interface.
func newNeighbours(k *kernel, index int, local netip.Addr) (neighbours, error) {
	n := neighbours{kernel: k, index: index, local: local, now: clock.Machine, anywhere: k.nl == nil}
	if k.nl == nil {
		return n, nil
	}
	links, err := Links(k.nl)
	n.vrf = vrfOf(links, index)
	return n, err
}

// Resolve resolves the way to dst: the route's next hop on the adapter's interface, and its link-layer address, which the kernel is asked
// to resolve if it is unknown. It blocks until that is done, ctx ends, or resolveTimeout has passed. Answers younger than resolvedFor are
// reused.
func (d *Datapath) Resolve(ctx context.Context, dst netip.Addr) error {
	t := &d.neighbors
	dst = dst.Unmap()
	if d.state.fresh(dst, t.now()) {
		return nil
	}
	r, err := t.route(dst)
	if err != nil {
		return err
	}
	if r.Type == unix.RTN_LOCAL {
		if d.local == nil {
			return fmt.Errorf("%w to %s with a lease: packets to an address of this machine never come to the interface %s, and the broker "+
				"has the UDP port that they come to; the datapath udp reaches it", ErrNoRoute, dst, d.info.Interface)
		}
		if err := t.loopbackUp(r, dst); err != nil {
			return err
		}
		d.state.foundHere(dst, t.now())
		return nil
	}
	if r.Encap != nil {
		return fmt.Errorf("%w to %s over AF_XDP: the route encapsulates packets (%s), which only the kernel does: use the datapath udp",
			ErrNoRoute, dst, r.Encap)
	}
	hop := hopOf(r, dst)
	mac, err := t.resolve(ctx, hop, d.info.Interface, func() { d.refresh(hop, dst) })
	if err != nil {
		return err
	}
	d.watch.tell(d.state.found(dst, hop, mac, t.now()))
	return nil
}

// resolve waits until the kernel knows the link-layer address of hop. It asks for it, and again when the kernel has given up: that may be for a
// question from before the neighbour came.
func (t *neighbours) resolve(ctx context.Context, hop netip.Addr, name string, ask func()) (mac [6]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, ErrNoNeighbour)
	defer cancel()
	for pause := resolveFirst; ; pause = min(2*pause, resolveMax) {
		n, err := t.look(hop)
		if n.known || err != nil {
			return n.mac, err
		}
		if n.state&unix.NUD_INCOMPLETE == 0 { // the kernel is not asking
			ask()
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, ErrNoNeighbour) {
				return mac, fmt.Errorf("resolve %s on %s: %w within %v: %s", hop, name, cause, resolveTimeout, t.whySilent(name))
			}
			return mac, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// whySilent says what to examine if a neighbour does not answer. Packets that arrive on a port of a bridge or a bond, including answers,
// belong to the bridge or the bond.
func (t *neighbours) whySilent(name string) string {
	port, err := t.kernel.nl.LinkByIndex(t.index)
	if err == nil && port.Attrs().MasterIndex != t.vrf {
		if master, err := t.kernel.nl.LinkByIndex(port.Attrs().MasterIndex); err == nil {
			return fmt.Sprintf("answers go to %s, which %s is a port of: use an address of %[1]s", master.Attrs().Name, name)
		}
	}
	return "is the peer up, and on the same network?"
}

// look reads what the kernel knows of a neighbour.
func (t *neighbours) look(hop netip.Addr) (neighbour, error) {
	return t.kernel.table.look(t.index, hop)
}

// ask makes the kernel resolve hop as if it had a packet for it. A refusal shows as a neighbour that does not appear.
func (t *neighbours) ask(hop netip.Addr) { _ = t.kernel.table.use(t.index, hop) }
