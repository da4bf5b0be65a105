package packet

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
)

const (
	// TxBatch is the largest number of packets in one Transmit: as many full packets at MTU 1500 as the kernel takes in one GSO
	// batch.
	TxBatch = 44
	// frameCache is the number of free transmit frames that an engine caches. It is enough for several packets of the largest size.
	frameCache = 128
	// longBatch is a number of bytes whose transmission takes about 10 µs of the sender's time. After this delay the clock is read
	// again.
	longBatch = 8 << 10
)

// Out is the sending side of an engine: the current packet, its batch, and cached frames.
type Out struct {
	builder
	link     sender
	batch    [TxBatch]link.TxPacket
	stage    stage
	sealed   *sealed     // memory for packets of encrypted connections; nil before the first one
	n        int         // packets in the batch
	leaving  []link.Path // to be forgotten after the batch, at most TxBatch
	cache    []link.Frag // free frames
	bytes    int         // bytes of packets sent in this poll
	noFrames bool        // a packet that must leave found no frames in this poll
	counts   Counts

	Clock  clock.Source // clock of the engine's owner, also used for latency samples; may be nil
	left   int          // value of bytes at the last Flush
	leftAt clock.Time   // end of the newest Flush of longBatch bytes or more
}

// sender is what Out needs of a Link.
type sender interface {
	Frames(dst []link.Frag) int
	Transmit(pkts []link.TxPacket)
	Forget(link.Path)
}

// Counts are totals of sent packets.
type Counts struct {
	Packets, Bytes uint64 // of ND packets
	NoFrames       uint64 // how often a packet waited for a transmit frame
}

// NewOut returns an Out without packets.
func NewOut(l sender) Out {
	return Out{link: l, cache: make([]link.Frag, 0, frameCache), leaving: make([]link.Path, 0, TxBatch)}
}

// BeginTurn begins a poll.
func (o *Out) BeginTurn() { o.bytes, o.left, o.noFrames = 0, 0, false }

// Now returns the present time for packets of the poll that began at turn. It includes the time spent on batches sent in this poll.
func (o *Out) Now(turn clock.Time) clock.Time { return max(turn, o.leftAt) }

// Starve records that a packet that must leave found no frames. Nothing more is sent in this poll.
func (o *Out) Starve() { o.noFrames = true }

// Starved reports whether Starve was called in this poll.
func (o *Out) Starved() bool { return o.noFrames }

// Abandon returns the frames of the current packet to the cache.
func (o *Out) Abandon() {
	b := &o.builder
	o.cache = append(o.cache, b.frames[:b.taken]...)
	b.pkt.N = 0
}

// Add puts the sealed packet into the batch. It returns true if the batch is full and must be flushed before the next Begin.
func (o *Out) Add() (full bool) {
	o.counts.Packets++
	o.counts.Bytes += uint64(o.Used())
	o.bytes += o.Used()
	o.n++
	return o.n == len(o.batch)
}

// Flush transmits the batch. It returns false if the batch was empty.
func (o *Out) Flush() bool {
	if o.n == 0 {
		return false
	}
	o.link.Transmit(o.batch[:o.n])
	if o.bytes-o.left >= longBatch && o.Clock != nil {
		o.leftAt = o.Clock()
	}
	o.left, o.n, o.stage.used = o.bytes, 0, 0
	for _, p := range o.leaving {
		o.link.Forget(p)
	}
	o.leaving = o.leaving[:0]
	return true
}

// Forget frees a path after the packets of the batch, some of which may use it: a connection may say its last word and be gone in the same
// turn. It returns true if the batch must be flushed before the next Forget.
func (o *Out) Forget(p link.Path) (full bool) {
	if o.n == 0 {
		o.link.Forget(p)
		return false
	}
	o.leaving = append(o.leaving, p)
	return len(o.leaving) == TxBatch
}

// CutOff replaces a link that must not be called any more. Packets in the batch are lost.
func (o *Out) CutOff(l sender) {
	o.link, o.cache, o.leaving, o.n, o.stage.used = l, o.cache[:0], o.leaving[:0], 0, 0
}

// Bytes returns the bytes of packets sent in this poll.
func (o *Out) Bytes() int { return o.bytes }

// Frames returns the number of cached frames.
func (o *Out) Frames() int { return len(o.cache) }

// Counts returns the totals.
func (o *Out) Counts() Counts { return o.counts }
