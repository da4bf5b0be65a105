package provider

// received owns what the link handed to the engine, from Receive until the frames go back (I8). A packet is in the batch that is being
// handled, or it waits in a place of its own until a gap before it closes. What is done with goes back to the link together: at the end
// of the batch, or when the list is full.
type received struct {
	link      receiver
	pressured Pressured // the link, if it knows; else nil
	batch     [rxBatch]RxPacket
	back      []uint64 // frames that the link gets back

	held   []RxPacket
	placed []placedPacket // beside held; with Config.ImmediatePlacement
	plan   placedPacket   // of the packet being placed
	free   []heldPacket   // places
	load   uint8          // how close the receiving side is to dropping packets
}

// receiver is what received needs of a Link.
type receiver interface {
	Receive(pkts []RxPacket) int
	Recycle(ids []uint64)
}

// Pressured is a Link that knows how full its receive memory is.
type Pressured interface {
	// Pressure is 0 when the receive rings are as they should be, 255 when packets are about to be dropped.
	Pressure() uint8
}

// heldPacket is a place in received plus one; zero is none. An entry without frames stands for a packet whose bytes are in place;
// received.placed says what remains to be done for it.
type heldPacket uint16

// heldNothing stands for a packet whose bytes are in place, and that is all there was.
const heldNothing heldPacket = 1<<16 - 1

// newReceived has places for as many packets as may wait, over all connections.
func newReceived(link receiver, places int, placing bool) received {
	r := received{link: link, back: make([]uint64, 0, rxBatch*MaxFrags), held: make([]RxPacket, places)}
	r.pressured, _ = link.(Pressured)
	if placing {
		r.placed = make([]placedPacket, places)
	}
	for i := places; i > 0; i-- {
		r.free = append(r.free, heldPacket(i))
	}
	return r
}

// hold takes p out of the batch until the gap before it closes; without p the place is for what r.plan says. It fails when too many
// packets wait already.
func (r *received) hold(p *RxPacket) (at heldPacket, ok bool) {
	if len(r.free) == 0 {
		return 0, false
	}
	at = r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	if p != nil {
		r.held[at-1] = *p
	} else {
		r.held[at-1].N = 0
		r.placed[at-1] = r.plan
	}
	return at, true
}

// leave frees the place of a packet whose turn has come, or which is given up, and returns the packet, whose frames are to be recycled
// before another one is held. It returns nil for a packet that had no frames.
func (r *received) leave(at heldPacket) *RxPacket {
	if at == heldNothing {
		return nil
	}
	r.free = append(r.free, at)
	if p := &r.held[at-1]; p.N > 0 {
		return p
	}
	return nil
}

// pieces is how many frames a packet that waits has.
func (r *received) pieces(at heldPacket) int {
	if at == 0 || at == heldNothing {
		return 0
	}
	return r.held[at-1].N
}

// waiting is how many packets have a place.
func (r *received) waiting() int { return len(r.held) - len(r.free) }

// recycle gives a packet's frames back to the link.
func (r *received) recycle(p *RxPacket) {
	if len(r.back)+p.N > cap(r.back) {
		r.flush()
	}
	for i := range p.N {
		r.back = append(r.back, p.Frags[i].ID)
	}
}

// flush ends a batch.
func (r *received) flush() {
	if len(r.back) > 0 {
		r.link.Recycle(r.back)
		r.back = r.back[:0]
	}
}

// cutOff parts from a link that must not be called any more; link takes its place.
func (r *received) cutOff(link receiver) { r.link, r.pressured, r.back = link, nil, r.back[:0] }

// measureLoad notes, once per receive batch, how close the receiving side is to dropping packets: the fuller of the link's
// rings and the places of packets that wait behind gaps.
func (r *received) measureLoad() {
	load := min(r.waiting()*256/len(r.held), 255)
	if r.pressured != nil {
		load = max(load, int(r.pressured.Pressure()))
	}
	r.load = uint8(load)
}
