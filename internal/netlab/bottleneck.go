package netlab

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bottleneck is a slow link: a token bucket behind a first-in-first-out queue with a limit (tc-tbf(8)). Sizes include the Ethernet
// header but not the preamble, as everywhere in the kernel.
type Bottleneck struct {
	BytesPerSec int
	Burst       int // bytes that may leave at once; longer packets never leave
	Queue       int // largest number of bytes in the queue
}

// Backlog is what a bottleneck holds now, and its counters.
type Backlog struct {
	Bytes, Packets int
	Sent           int // packets
	Dropped        int // packets lost because the queue was full
}

// The kernel stores the time to fill a token bucket in units of 64 ns (PSCHED_SHIFT in include/net/pkt_sched.h), in 32 bits.
const (
	tickShift = 6
	maxFill   = time.Duration(math.MaxUint32 << tickShift)
)

// fill returns the time to fill an empty bucket.
func (b Bottleneck) fill() time.Duration {
	return time.Duration(int64(b.Burst) * int64(time.Second) / int64(b.BytesPerSec))
}

// SetBottleneck puts a bottleneck between the router and a host, or replaces the present one. Packets in the replaced queue are lost.
func (s *Star) SetBottleneck(host int, b Bottleneck) error {
	if b.BytesPerSec <= 0 || b.Burst <= 0 || b.Queue <= 0 {
		return fmt.Errorf("netlab: bottleneck %+v: %w, all values must be positive", b, unix.EINVAL)
	}
	if b.fill() > maxFill {
		return fmt.Errorf("netlab: bottleneck %+v: %w, the bucket takes %v to fill, at most %v", b, unix.EINVAL, b.fill(), maxFill)
	}
	at := netlink.QdiscAttrs{
		LinkIndex: s.Hosts[host].PortIfindex, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
	}
	qdisc := &netlink.Tbf{
		QdiscAttrs: at, Rate: uint64(b.BytesPerSec), Buffer: uint32(b.fill() >> tickShift), Limit: uint32(b.Queue),
	}
	if err := s.handle.QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("netlab: add token bucket %+v to %s (CONFIG_NET_SCH_TBF): %w", b, s.Hosts[host].Port, err)
	}
	return nil
}

// ErrNoBottleneck means that SetBottleneck was not called for the host.
var ErrNoBottleneck = errors.New("no bottleneck")

// Backlog returns the state of the bottleneck in front of a host.
func (s *Star) Backlog(host int) (Backlog, error) {
	h := &s.Hosts[host]
	qdiscs, err := s.handle.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: h.PortIfindex}})
	if err != nil {
		return Backlog{}, fmt.Errorf("netlab: read the queue of %s: %w", h.Port, err)
	}
	for _, q := range qdiscs {
		stats := q.Attrs().Statistics
		if _, ok := q.(*netlink.Tbf); !ok || stats == nil {
			continue
		}
		return Backlog{
			Bytes: int(stats.Queue.Backlog), Packets: int(stats.Queue.Qlen),
			Sent: int(stats.Basic.Packets), Dropped: int(stats.Queue.Drops),
		}, nil
	}
	return Backlog{}, fmt.Errorf("netlab: read the queue of %s: %w", h.Port, ErrNoBottleneck)
}
