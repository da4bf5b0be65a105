package provider

// A window below one packet is served by time: one packet every RTT/window (Swift). Larger ones need no timer: packets
// leave when acknowledgements come, at most a burst at a time.

// mayLeave says whether pacing lets a packet go now, and sets the timer if not.
func (c *conn) mayLeave() bool {
	cc := &c.cc
	if cc.gap == 0 || cc.sendAt <= c.engine.now {
		return true
	}
	cc.limitedAt = c.engine.now
	if cc.wakeAt != cc.sendAt {
		cc.wakeAt = cc.sendAt
		c.touch()
	}
	return false
}

// left notes that a packet goes out now.
func (c *conn) left() {
	if cc := &c.cc; cc.gap != 0 {
		cc.sendAt = c.engine.now.Add(cc.gap)
	}
}

// room says whether the windows let another packet of either space go.
func (c *conn) room() bool {
	if c.tx[0].inFlight+c.tx[1].inFlight >= c.cc.window {
		c.cc.limitedAt = c.engine.now
		return false
	}
	return c.mayLeave()
}
