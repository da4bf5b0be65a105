package datapath

// bulkReader takes packets from the bulk lane.
type bulkReader struct {
	socketReader
	lane *bulkLane
}

// readBulk makes the queue read the lane.
func (q *queue) readBulk(l *bulkLane) {
	r := &bulkReader{lane: l, socketReader: socketReader{
		socket: l.socket, local: l.local, bulk: true, merged: &l.merged, foreign: &l.foreign, frames: receiveFrames, fail: l.fail,
		calendar: today(),
	}}
	q.bulkIn = r
	q.readBeside(&r.socketReader)
}
