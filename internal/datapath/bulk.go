package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ndxdp/ndxdp/internal/genetlink"
	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// Bulk says whether an interface gets a bulk lane beside its AF_XDP sockets (PROTOCOL §11.1).
type Bulk uint8

// The choices.
const (
	BulkAuto Bulk = iota // where the kernel carries GSO batches and AF_XDP copies (bulkFacts)
	BulkOff
	BulkOnly // wherever it can be had; engines then send by it whatever it carries
)

var bulkNames = [...]string{BulkAuto: "auto", BulkOff: "off", BulkOnly: "only"}

// String names the choice as flags do.
func (b Bulk) String() string {
	if int(b) < len(bulkNames) {
		return bulkNames[b]
	}
	return fmt.Sprintf("bulk %d", uint8(b))
}

// ParseBulk is the inverse of String.
func ParseBulk(s string) (Bulk, error) {
	if i := slices.Index(bulkNames[:], s); i >= 0 {
		return Bulk(i), nil
	}
	return BulkAuto, fmt.Errorf("unknown choice of a bulk lane %q: use auto, off or only", s)
}

// bulkLane is a UDP socket for GSO batches, which the steering program leaves alone. The kernel carries 64 KiB across a virtual link in one
// piece, while AF_XDP carries packets one by one. The owner of the first queue reads the socket; all queues send through it.
type bulkLane struct {
	socket *udp.Socket
	local  wire.Endpoint
	device *xdpDevice

	shut    atomic.Pointer[string] // why it carries no runs any more
	inRuns  atomic.Uint64
	merged  atomic.Uint64
	lost    atomic.Uint64
	foreign atomic.Uint64
}

// bulkFacts is what decides whether an interface gets a bulk path, whatever moves through it.
type bulkFacts struct {
	name           string   // of the interface
	zeroCopy       bool     // AF_XDP sends without a copy: a kernel socket would add one
	on, changeable []string // offloads that are on, and offloads that can be changed
	refused        error    // why this kernel sends no GSO batches
}

// bulkFacts looks at what the choice takes: nothing if it is turned off.
func (d *xdpDevice) bulkFacts() *bulkFacts {
	f := &bulkFacts{name: d.info.Interface, zeroCopy: d.info.Socket.ZeroCopy}
	if d.cfg.Bulk == BulkAuto {
		f.on, f.changeable = genetlink.Offloads(d.index), genetlink.Changeable(d.index)
	}
	if d.cfg.Bulk != BulkOff {
		f.refused = d.network.Runs()
	}
	return f
}

// refuses says why an interface gets no bulk path; empty when it gets one.
func (b Bulk) refuses(f *bulkFacts) string {
	switch {
	case b == BulkOff:
		return "turned off"
	case b == BulkAuto && f.zeroCopy:
		return "AF_XDP sends without a copy on interface " + f.name
	case b == BulkAuto && !slices.Contains(f.on, genetlink.SegmentsUDP):
		return unsegmented(f.name, f.on, f.changeable)
	case f.refused != nil:
		return f.refused.Error()
	}
	return ""
}

// unsegmented says that an interface does not segment UDP, and how to have it do that where it can. Both lists are of names of offloads.
func unsegmented(name string, on, changeable []string) string {
	why := "interface " + name + " does not segment UDP (" + genetlink.SegmentsUDP + ")"
	if !slices.Contains(changeable, genetlink.SegmentsUDP) {
		return why + ", and its driver offers no way to turn it on"
	}
	command := "ethtool -K " + name
	if !slices.ContainsFunc(on, func(o string) bool { return strings.HasPrefix(o, "tx-checksum-ip") }) {
		command += " tx on" // newer kernels (6.18) refuse segmentation alone: what is segmented must get its checksums there, too
	}
	return why + ": turn it on (" + command + " " + genetlink.SegmentsUDP + " on) and open the adapter again"
}

// addBulk opens the lane, where the device gets one. It takes no privileges.
func (d *xdpDevice) addBulk() (err error) {
	l := &bulkLane{device: d}
	d.info.NoBulk = d.cfg.Bulk.refuses(d.bulkFacts())
	if d.info.NoBulk != "" {
		return nil
	}
	l.socket, err = d.network.Open(udp.Config{
		Local: netip.AddrPortFrom(d.cfg.Address, 0), Scope: d.index, Device: d.resolver.VRF,
		ReceiveBuffer: socketBuffer, SendBuffer: socketBuffer, Runs: true, Stamps: true,
		Keep: keeps(d.info.Driver, false),
	})
	if err != nil {
		return fmt.Errorf("open the bulk lane: %w", err)
	}
	port, err := l.socket.Port()
	if err == nil {
		l.local = wire.EndpointFrom(netip.AddrPortFrom(d.cfg.Address, port))
		d.info.BulkPort = port
		d.bulk = l
		for _, q := range d.queues {
			q.bulkOut.lane = l
		}
		d.queues[0].readBulk(l)
		return nil
	}
	return errors.Join(err, l.socket.Close())
}

// fail ends runs by the lane, because of why. Connections leave it, and new ones do not begin with it.
func (l *bulkLane) fail(why string) { l.shut.CompareAndSwap(nil, &why) }

// open says that it carries runs.
func (l *bulkLane) open() bool { return l != nil && l.shut.Load() == nil }

func (l *bulkLane) addTo(s *Stats) {
	s.InRuns += l.inRuns.Load()
	s.Merged += l.merged.Load()
	s.Lost += l.lost.Load()
	s.Foreign += l.foreign.Load()
	dropped, _ := l.socket.Drops() // fails while the device closes
	s.Socket.RxDropped += dropped
}

func (l *bulkLane) close() error { return l.socket.Close() }
