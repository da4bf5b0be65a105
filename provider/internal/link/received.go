package link

// RxBatch is the largest number of packets received in one call.
const RxBatch = 64

// Received owns the packets of the current batch, from Receive until their frames return to the link (I8). Frames return together
// at the end of the batch, or when the list is full.
type Received struct {
	link      receiver
	pressured Pressured // nil if the link does not implement Pressured
	batch     [RxBatch]RxPacket
	back      []uint64 // frames to return to the link
	load      uint8    // how close the receiver is to dropping packets
}

// receiver is what Received needs of a Link.
type receiver interface {
	Receive(pkts []RxPacket) int
	Recycle(ids []uint64)
}

// Pressured is a Link that knows how full its receive memory is.
type Pressured interface {
	// Pressure returns 0 if the receive rings have enough free frames, and 255 if packets are about to be dropped.
	Pressure() uint8
}

// NewReceived returns a Received without packets.
func NewReceived(link receiver) Received {
	r := Received{link: link, back: make([]uint64, 0, RxBatch*MaxFrags)}
	r.pressured, _ = link.(Pressured)
	return r
}

// Receive receives a batch from the link. The caller owns it until Flush.
func (r *Received) Receive() []RxPacket { return r.batch[:r.link.Receive(r.batch[:])] }

// Load returns how close the receiver is to dropping packets, from 0 to 255 (Pressured).
func (r *Received) Load() uint8 { return r.load }

// Recycle returns the frames of a packet to the link.
func (r *Received) Recycle(p *RxPacket) {
	if len(r.back)+p.N > cap(r.back) {
		r.Flush()
	}
	for i := range p.N {
		r.back = append(r.back, p.Frags[i].ID)
	}
}

// Flush ends a batch.
func (r *Received) Flush() {
	if len(r.back) > 0 {
		r.link.Recycle(r.back)
		r.back = r.back[:0]
	}
}

// CutOff replaces a link that must not be called any more.
func (r *Received) CutOff(link receiver) {
	r.link, r.pressured, r.back = link, nil, r.back[:0]
}

// MeasureLoad updates the load, once per receive batch. The load is the larger of two fill levels: of the link's rings, and of the
// memory for packets behind gaps. This memory has used of limit bytes in use.
func (r *Received) MeasureLoad(used, limit int) {
	load := min(used*256/limit, 255)
	if r.pressured != nil {
		load = max(load, int(r.pressured.Pressure()))
	}
	r.load = uint8(load)
}
