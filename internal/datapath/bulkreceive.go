package datapath

// bulkReader takes packets from the bulk lane.
type bulkReader struct {
	socketReader
	lane    *bulkLane
	damaged damage
}

// readBulk makes the queue read the lane.
func (q *queue) readBulk(l *bulkLane) {
	r := &bulkReader{lane: l, socketReader: socketReader{
		socket: l.socket, local: l.local, bulk: true, merged: &l.merged, foreign: &l.foreign, frames: receiveFrames, fail: l.fail,
	}}
	q.bulkIn = r
	q.readBeside(&r.socketReader)
}

// Mangled implements provider.Merging.
func (q *queue) Mangled() {
	r := q.bulkIn
	if r == nil {
		return // the packet came to another queue's engine, whose packets it counts among
	}
	if r.lane.open() && r.damaged.more(r.lane.merged.Load()) {
		r.lane.fail("merged packets arrived damaged")
		_ = r.lane.socket.Apart() // a socket that cannot is closed
	}
}
