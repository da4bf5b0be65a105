package guard

// Ended is the ids of connections that are over and still answer, by when they ended. An id may be of one that is gone meanwhile.
type Ended struct {
	ids  []uint64 // ring
	head int
	n    int
}

// Len is how many ids there are.
func (e *Ended) Len() int { return e.n }

// Cap is how many ids there is memory for; it never shrinks.
func (e *Ended) Cap() int { return len(e.ids) }

// Oldest is the id that came first. There must be one.
func (e *Ended) Oldest() uint64 { return e.ids[e.head] }

// Pop takes the oldest id off. There must be one.
func (e *Ended) Pop() uint64 {
	id := e.ids[e.head]
	e.head = (e.head + 1) % len(e.ids)
	e.n--
	return id
}

// Push adds an id, and memory when all places are taken. The caller keeps within MaxEnded.
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
