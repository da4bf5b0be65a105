package answers

// Asked are our READs that the peer has not fully answered, oldest first, as indices of the initiator queue. Zero has none.
type Asked struct {
	seqs  [MaxReads]uint32
	head  uint32 // read id of the oldest
	count uint32
	off   uint32 // bytes of the oldest that arrived
	bytes uint64 // asked for by all of them
}

// Start begins anew, with the READ with an id as the next one.
func (a *Asked) Start(id uint32) { *a = Asked{head: id} }

// GiveUp forgets all of them; ids go on.
func (a *Asked) GiveUp() { *a = Asked{head: a.head + a.count} }

// Add notes a READ of so many bytes that goes out. There are fewer than MaxReads.
func (a *Asked) Add(seq, length uint32) {
	a.seqs[(a.head+a.count)%MaxReads] = seq
	a.count++
	a.bytes += uint64(length)
}

// Waiting is how many there are.
func (a *Asked) Waiting() uint32 { return a.count }

// Oldest returns where the oldest READ is in the initiator queue. There must be one.
func (a *Asked) Oldest() (seq uint32) { return a.seqs[a.head%MaxReads] }

// Find returns where the READ with an id is in the initiator queue, if it is outstanding.
func (a *Asked) Find(id uint32) (seq uint32, ok bool) {
	return a.seqs[id%MaxReads], id-a.head < a.count
}

// Next says whether an answer's byte is the next expected byte: of the oldest READ, after the bytes that arrived.
func (a *Asked) Next(id, offset uint32) bool { return id == a.head && offset == a.off }

// Take notes that n more bytes of the oldest answer arrived.
func (a *Asked) Take(n uint32) { a.off += n }

// Remove takes out the oldest READ, of this length, which is done.
func (a *Asked) Remove(length uint32) {
	a.head++
	a.count--
	a.bytes -= uint64(length)
	a.off = 0
}

// Fill says whether the answers under way fill a window, as if we had sent them: no other READ may go. Only who asks knows all that will come.
func (a *Asked) Fill(window int) bool {
	return a.count > 0 && a.bytes-uint64(a.off) >= uint64(window)
}
