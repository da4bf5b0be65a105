package answers

// Asked lists our READs that the peer has not fully answered, oldest first, as indices of the initiator queue. The zero Asked is
// empty.
type Asked struct {
	seqs  [MaxReads]uint32
	head  uint32 // read id of the oldest
	count uint32
	off   uint32 // bytes of the oldest READ that arrived
	bytes uint64 // requested by all listed READs
}

// Start empties the list. id is the id of the next READ.
func (a *Asked) Start(id uint32) { *a = Asked{head: id} }

// GiveUp empties the list. The next READ has the next id.
func (a *Asked) GiveUp() { *a = Asked{head: a.head + a.count} }

// Add appends a READ of length bytes. The list must hold fewer than MaxReads.
func (a *Asked) Add(seq, length uint32) {
	a.seqs[(a.head+a.count)%MaxReads] = seq
	a.count++
	a.bytes += uint64(length)
}

// Waiting returns the number of listed READs.
func (a *Asked) Waiting() uint32 { return a.count }

// Oldest returns the index of the oldest READ in the initiator queue. The list must not be empty.
func (a *Asked) Oldest() (seq uint32) { return a.seqs[a.head%MaxReads] }

// Find returns the index of the READ with an id in the initiator queue, if that READ is listed.
func (a *Asked) Find(id uint32) (seq uint32, ok bool) {
	return a.seqs[id%MaxReads], id-a.head < a.count
}

// Next reports whether offset is the next expected byte of the answers: the first missing byte of the oldest READ.
func (a *Asked) Next(id, offset uint32) bool { return id == a.head && offset == a.off }

// Take records that n more bytes of the oldest READ arrived.
func (a *Asked) Take(n uint32) { a.off += n }

// Remove removes the oldest READ, which is complete and has this length.
func (a *Asked) Remove(length uint32) {
	a.head++
	a.count--
	a.bytes -= uint64(length)
	a.off = 0
}

// Fill reports whether the requested bytes fill a window, so that no further READ may leave. The requester limits READs, because
// only the requester knows how much data will arrive.
func (a *Asked) Fill(window int) bool {
	return a.count > 0 && a.bytes-uint64(a.off) >= uint64(window)
}
