package recovery

// Marks counts the congestion marks of a connection in both directions. Received marks are echoed, as a flag in data packets and as
// a sum in reports. Marks that the peer echoes both ways are counted once (PROTOCOL §9.4, RFC 8257 §3.2).
type Marks struct {
	count  uint32 // received packets with a mark
	peer   uint32 // sum that the peer reported last
	ahead  uint32 // marks that the peer echoed in data packets, which its next report will include
	newest bool   // the newest received packet had a mark
	echo   bool   // a mark must be echoed
}

// Came records whether a new packet had a mark. several means that the flag cannot echo all marks. changed means that the peer must
// be told at once, so that it counts correctly.
func (m *Marks) Came(marked bool) (several, changed bool) {
	if marked {
		several = m.echo
		m.count++
		m.echo = true
	}
	changed = marked != m.newest
	m.newest = marked
	return several, changed
}

// Count returns the number of received packets with a mark.
func (m *Marks) Count() uint32 { return m.count }

// Owed reports whether a mark must be echoed.
func (m *Marks) Owed() bool { return m.echo }

// Told records that all marks were echoed.
func (m *Marks) Told() { m.echo = false }

// Echoed records that the peer echoed one mark in a data packet.
func (m *Marks) Echoed() { m.ahead++ }

// Peer returns the sum that the peer reported last.
func (m *Marks) Peer() uint32 { return m.peer }

// Reported handles the sum that the peer reports, and returns the number of new marks.
func (m *Marks) Reported(sum uint32) (fresh int) {
	d := sum - m.peer
	if int32(d) <= 0 {
		return 0
	}
	m.peer = sum
	known := min(d, m.ahead)
	m.ahead -= known
	return int(d - known)
}
