package datapath

import "github.com/ndxdp/ndxdp/wire"

// bulkReader reads packets from the socket of the bulk path.
type bulkReader struct {
	socketReader
	lane *bulkLane
}

// readBulk makes the queue read the socket of the bulk path.
func (q *queue) readBulk(l *bulkLane) {
	r := &bulkReader{lane: l, socketReader: socketReader{
		socket: l.socket, whole: wire.IsLong, local: l.local, bulk: true, merged: &l.merged, foreign: &l.foreign, frames: receiveFrames, fail: l.fail,
		calendar: today(),
	}}
	if q.ring != nil {
		r.counted = &counted{count: q.ring.Bulk}
		q.ring.CountBulk(l.local.Port)
	}
	q.bulkIn = r
	q.readBeside(&r.socketReader)
}
