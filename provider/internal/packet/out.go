package packet

import (
	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/provider/internal/link"
)

const (
	// TxBatch is how many packets leave together at the most: as many full ones at MTU 1500 as the kernel takes in one run.
	TxBatch = 44
	// frameCache is how many free transmit frames are kept at hand: enough for the largest packet several times over.
	frameCache = 128
	// longBatch is how many bytes take so long to leave, on the sender's time, that what is built next has to say so: 10 µs.
	longBatch = 8 << 10
)

// Out is what an engine sends: the current packet, the batch that it leaves with, and the frames for the next packets.
type Out struct {
	builder
	link     sender
	batch    [TxBatch]link.TxPacket
	stage    stage
	n        int         // packets of the batch that wait
	frames   []link.Frag // free ones, at hand
	bytes    int         // of packets, this turn
	noFrames bool        // this turn something that has to go out found no frames
	counts   Counts

	Clock  clock.Source // the owner's, also for samples of latency; nil without any
	left   int          // of bytes, how many have left
	leftAt clock.Time   // when the newest long batch had
}

// sender is what Out needs of a Link.
type sender interface {
	Frames(dst []link.Frag) int
	Transmit(pkts []link.TxPacket)
}

// Counts are totals of what was sent.
type Counts struct {
	Packets, Bytes uint64 // of ND packets
	NoFrames       uint64 // times a packet waited for a transmit frame
}

// NewOut has sent nothing.
func NewOut(l sender) Out { return Out{link: l, frames: make([]link.Frag, 0, frameCache)} }

// BeginTurn begins a turn.
func (o *Out) BeginTurn() { o.bytes, o.left, o.noFrames = 0, 0, false }

// Now is the time for packets that are built now, in a poll that began at turn. It includes the time that batches sent meanwhile took.
func (o *Out) Now(turn clock.Time) clock.Time { return max(turn, o.leftAt) }

// Starve notes that what has to go out found no frames: nothing more is to be tried this turn.
func (o *Out) Starve() { o.noFrames = true }

// Starved says that something that has to go out found no frames this turn.
func (o *Out) Starved() bool { return o.noFrames }

// Abandon gives the frames of the packet at hand back to the cache.
func (o *Out) Abandon() {
	b := &o.builder
	n := b.pkt.N
	if b.referred {
		n = 1
	}
	for i := range n {
		o.frames = append(o.frames, link.Frag{Data: b.whole[i], ID: b.pkt.Frags[i].ID})
	}
	b.pkt.N = 0
}

// Add puts the packet that was sealed into the batch. It reports that the batch is full, and must be flushed before another one begins.
func (o *Out) Add() (full bool) {
	o.counts.Packets++
	o.counts.Bytes += uint64(o.used)
	o.bytes += o.used
	o.n++
	return o.n == len(o.batch)
}

// Flush hands the batch to the link. It reports whether there was anything in it.
func (o *Out) Flush() bool {
	if o.n == 0 {
		return false
	}
	o.link.Transmit(o.batch[:o.n])
	if o.bytes-o.left >= longBatch && o.Clock != nil {
		o.leftAt = o.Clock()
	}
	o.left, o.n, o.stage.used = o.bytes, 0, 0
	return true
}

// CutOff stops using a link that must not be called any more; l takes its place. Packets that were about to leave are lost.
func (o *Out) CutOff(l sender) { o.link, o.frames, o.n, o.stage.used = l, o.frames[:0], 0, 0 }

// Bytes is how many bytes of packets this turn has sent.
func (o *Out) Bytes() int { return o.bytes }

// Frames is how many of the link's frames are kept at hand.
func (o *Out) Frames() int { return len(o.frames) }

// Counts are the totals.
func (o *Out) Counts() Counts { return o.counts }
