package datapath

import "github.com/ndxdp/ndxdp/provider"

var _ provider.Pressured = (*queue)(nil)

// Pressure implements provider.Pressured by the rx ring: what waits in it cannot be in the fill ring.
func (q *queue) Pressure() uint8 { return uint8(min(q.sock.RxBacklog(), 255)) }
