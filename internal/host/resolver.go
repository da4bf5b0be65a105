package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
)

// These are the bounds of neighbour resolution (ND specification 7.4: an unresolved neighbour is unreachable after 3 s).
const (
	resolveTimeout = 3 * time.Second
	resolveFirst   = time.Millisecond
	resolveMax     = 50 * time.Millisecond
)

// ErrNoRoute and ErrNoNeighbour mean that a peer cannot be reached. ErrNotOneHost means that the address cannot be a peer's.
var (
	ErrNoRoute     = errors.New("no route")
	ErrNoNeighbour = errors.New("no answer to neighbour resolution")
	ErrNotOneHost  = errors.New("a broadcast or multicast address")
)

// Resolver queries the kernel for routes and neighbours of an address on an interface. It caches no answers.
type Resolver struct {
	Kernel *Kernel
	index  int
	VRF    int // index of the VRF that the interface belongs to or is; 0 for none
	local  netip.Addr
	Now    clock.Source
	// Anywhere allows routes over any interface, of the VRF if there is one.
	Anywhere bool
}

// NewResolver returns a Resolver for the routes from an address on an interface.
func NewResolver(k *Kernel, index int, local netip.Addr) (Resolver, error) {
	n := Resolver{Kernel: k, index: index, local: local, Now: clock.Machine, Anywhere: k.Netlink == nil}
	if k.Netlink == nil {
		return n, nil
	}
	links, err := Links(k.Netlink)
	n.VRF = VRFOf(links, index)
	return n, err
}

// Resolve waits until the kernel knows the link-layer address of hop. It makes the kernel resolve hop, and does so again when the kernel
// has given up, because the kernel may have asked before the neighbour existed.
func (t *Resolver) Resolve(ctx context.Context, hop netip.Addr, name string, ask func()) (mac [6]byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, ErrNoNeighbour)
	defer cancel()
	for pause := resolveFirst; ; pause = min(2*pause, resolveMax) {
		n, err := t.Look(hop)
		if n.Known || err != nil {
			return n.MAC, err
		}
		if n.State&unix.NUD_INCOMPLETE == 0 { // the kernel does not resolve it now
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

// whySilent returns advice if a neighbour does not answer. Packets that arrive on a port of a bridge or a bond, including answers, belong
// to the bridge or the bond.
func (t *Resolver) whySilent(name string) string {
	port, err := t.Kernel.Netlink.LinkByIndex(t.index)
	if err == nil && port.Attrs().MasterIndex != t.VRF {
		if master, err := t.Kernel.Netlink.LinkByIndex(port.Attrs().MasterIndex); err == nil {
			return fmt.Sprintf("answers go to %s, which %s is a port of: use an address of %[1]s", master.Attrs().Name, name)
		}
	}
	return "is the peer up, and on the same network?"
}

// Look returns the kernel's entry for a neighbour.
func (t *Resolver) Look(hop netip.Addr) (Neighbour, error) {
	return t.Kernel.table.look(t.index, hop)
}

// Ask makes the kernel resolve hop as if it had a packet for it. If the kernel refuses, the neighbour does not appear.
func (t *Resolver) Ask(hop netip.Addr) { _ = t.Kernel.table.use(t.index, hop) }
