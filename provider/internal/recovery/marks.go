package recovery

// Marks are the congestion marks of a connection's packets in both directions. Received marks are echoed, as a flag beside data and as a
// sum in reports. Marks that the peer echoes are counted once (PROTOCOL §9.4, RFC 8257 §3.2).
type Marks struct {
	count  uint32 // packets that came marked
	peer   uint32 // marks that the peer reported last
	ahead  uint32 // marks that it echoed beside data, which the next report contains
	newest bool   // the newest packet came marked
	echo   bool   // the peer has to hear of a mark
}

// Came records whether a router marked a new packet. several says that the peer must be told more than the flag can say. changed says that
// it must be told of a change at once, so that it counts correctly.
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

// Count is how many packets came marked.
func (m *Marks) Count() uint32 { return m.count }

// Owed says that the peer has to hear of a mark.
func (m *Marks) Owed() bool { return m.echo }

// Told notes that the peer is told of all marks.
func (m *Marks) Told() { m.echo = false }

// Echoed takes in that the peer echoed one mark beside data.
func (m *Marks) Echoed() { m.ahead++ }

// Peer is the sum that the peer reported last.
func (m *Marks) Peer() uint32 { return m.peer }

// Reported takes in the sum that the peer reports, and returns how many of these marks are new.
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
