package sim

import (
	"slices"
	"time"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/wire"
)

// Bottleneck is the last link of a path. Packets leave one after another, wait in a queue, and are lost if the queue is full.
type Bottleneck struct {
	Rate  int // bits per second
	Queue int // bytes, including the packet being sent
	Mark  int // queue length in bytes from which ECN-capable packets are marked; zero for never

	// Police makes it a token bucket of Queue bytes that fills at Rate. Packets beyond the rate are lost, and no packet waits.
	Police bool

	free    clock.Time // when the last queued packet will have left
	waits   []time.Duration
	Passed  uint64 // bytes sent
	Dropped int
	Marked  int
}

// wireOverhead is the overhead of a packet on the wire: preamble, gap, Ethernet, IPv4 and UDP.
const wireOverhead = 38 + 28

// Narrow puts a bottleneck in front of a host.
func (h *Host) Narrow(b *Bottleneck) { h.inlet = b }

// NarrowLane puts a separate bottleneck in front of the host's bulk path.
func (h *Host) NarrowLane(b *Bottleneck) { h.laneInlet = b }

// pass sends a packet through the bottleneck, after wait. A nil bottleneck does nothing.
func (b *Bottleneck) pass(now clock.Time, size int, ecn wire.ECN) (wait time.Duration, marked, ok bool) {
	if b == nil {
		return 0, false, true
	}
	size += wireOverhead
	b.free = max(b.free, now)
	queueing := b.free.Sub(now)
	backlog := int(int64(queueing) * int64(b.Rate) / 8 / int64(time.Second))
	if backlog+size > b.Queue {
		b.Dropped++
		return 0, false, false
	}
	if marked = b.Mark > 0 && backlog >= b.Mark && ecn == wire.ECT0; marked {
		b.Marked++
	}
	b.waits = append(b.waits, queueing)
	b.free = b.free.Add(time.Duration(int64(size) * 8 * int64(time.Second) / int64(b.Rate)))
	b.Passed += uint64(size)
	if b.Police {
		return 0, marked, true
	}
	return b.free.Sub(now), marked, true
}

// fault returns the fault that the loss of a packet at the bottleneck counts as.
func (b *Bottleneck) fault() Fault {
	if b.Police {
		return Police
	}
	return Tail
}

// Forget resets the measurements.
func (b *Bottleneck) Forget() { b.waits, b.Passed, b.Dropped, b.Marked = b.waits[:0], 0, 0, 0 }

// Waits returns quantiles, in thousandths, of the time that packets waited in the queue.
func (b *Bottleneck) Waits(thousandths ...int) []time.Duration {
	sorted := slices.Sorted(slices.Values(b.waits))
	var out []time.Duration
	for _, q := range thousandths {
		out = append(out, sorted[(len(sorted)-1)*q/1000])
	}
	return out
}
