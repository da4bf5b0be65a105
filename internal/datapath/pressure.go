package datapath

import "github.com/ndxdp/ndxdp/provider"

var (
	_ provider.Pressured = (*queue)(nil)
	_ provider.Pressured = (*socketDevice)(nil)

	_ provider.Backlogged = (*queue)(nil)
)

// Pressure implements provider.Pressured with the rx ring: frames that wait in it cannot be in the fill ring.
func (q *queue) Pressure() uint8 { return uint8(min(q.sock.RxBacklog(), 255)) }

// Pressure implements provider.Pressured with the receive buffer. The kernel is asked only after a full batch, because a smaller batch
// emptied the buffer.
func (d *socketDevice) Pressure() uint8 {
	if !d.receiver.Full() {
		return 0
	}
	return uint8(min(d.in.Fill(), 255))
}
