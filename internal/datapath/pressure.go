package datapath

import "github.com/ndxdp/ndxdp/provider"

var (
	_ provider.Pressured = (*queue)(nil)
	_ provider.Pressured = (*socketDevice)(nil)

	_ provider.Backlogged = (*queue)(nil)
)

// Pressure implements provider.Pressured by the rx ring: what waits in it cannot be in the fill ring.
func (q *queue) Pressure() uint8 { return uint8(min(q.sock.RxBacklog(), 255)) }

// Pressure implements provider.Pressured by the receive buffer. The kernel is asked only after a batch that was full: else the
// buffer was emptied.
func (d *socketDevice) Pressure() uint8 {
	if !d.receiver.Full() {
		return 0
	}
	return uint8(min(d.in.Fill(), 255))
}
