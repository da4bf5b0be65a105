package guard

// Ended lists the ids of ended connections that still answer, in the order in which they ended. A listed connection may be freed
// already.
type Ended struct {
	ids  []uint64 // ring
	head int
	n    int
}

// Len returns the number of ids.
func (e *Ended) Len() int { return e.n }

// Cap returns the number of ids that fit into the memory, which never shrinks.
func (e *Ended) Cap() int { return len(e.ids) }

// Oldest returns the oldest id. The list must not be empty.
func (e *Ended) Oldest() uint64 { return e.ids[e.head] }

// Pop removes and returns the oldest id. The list must not be empty.
func (e *Ended) Pop() uint64 {
	id := e.ids[e.head]
	e.head = (e.head + 1) % len(e.ids)
	e.n--
	return id
}

// Push appends an id, and grows the ring if it is full. The caller keeps within MaxEnded.
func (e *Ended) Push(id uint64) {
	if e.n == len(e.ids) {
		ids := make([]uint64, max(64, 2*e.n))
		for i := range e.n {
			ids[i] = e.ids[(e.head+i)%len(e.ids)]
		}
		e.ids, e.head = ids, 0
	}
	e.ids[(e.head+e.n)%len(e.ids)] = id
	e.n++
}
