package datapath

import "github.com/ndxdp/ndxdp/provider"

var _ provider.Pressured = (*Datapath)(nil)

// Pressure implements provider.Pressured by the rx ring: what waits in it cannot be in the fill ring.
func (d *Datapath) Pressure() uint8 { return uint8(min(d.sock.RxBacklog(), 255)) }
