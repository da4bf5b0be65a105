package link

// RxBatch is how many packets are received together.
const RxBatch = 64

// Received owns the received packets from Receive until their frames go back (I8): the packets of the current batch. Finished frames
// go back to the link together, at the end of the batch or when the list is full.
type Received struct {
	link      receiver
	pressured Pressured // the link, if it knows; else nil
	batch     [RxBatch]RxPacket
	back      []uint64 // frames that the link gets back
	load      uint8    // how close the receiving side is to dropping packets
}

// receiver is what Received needs of a Link.
type receiver interface {
	Receive(pkts []RxPacket) int
	Recycle(ids []uint64)
}

// Pressured is a Link that knows how full its receive memory is.
type Pressured interface {
	// Pressure is 0 when the receive rings are as they should be, 255 when packets are about to be dropped.
	Pressure() uint8
}

// NewReceived has received nothing.
func NewReceived(link receiver) Received {
	r := Received{link: link, back: make([]uint64, 0, RxBatch*MaxFrags)}
	r.pressured, _ = link.(Pressured)
	return r
}

// Receive takes a batch from the link. It is the caller's until Flush.
func (r *Received) Receive() []RxPacket { return r.batch[:r.link.Receive(r.batch[:])] }

// Load is how close the receiving side is to dropping packets: 0 for as it should be, 255 for about to.
func (r *Received) Load() uint8 { return r.load }

// Recycle gives a packet's frames back to the link.
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

// CutOff parts from a link that must not be called any more; link takes its place.
func (r *Received) CutOff(link receiver) {
	r.link, r.pressured, r.back = link, nil, r.back[:0]
}

// MeasureLoad records, once per receive batch, how close the receiver is to dropping packets. The load is the fuller of the link's
// rings and of the memory of packets behind gaps, of which used of limit bytes are in use.
func (r *Received) MeasureLoad(used, limit int) {
	load := min(used*256/limit, 255)
	if r.pressured != nil {
		load = max(load, int(r.pressured.Pressure()))
	}
	r.load = uint8(load)
}
