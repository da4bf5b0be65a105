package clock

// Deadlines orders the deadlines of numbered owners, one for each owner. It is a binary heap with an index of positions. Moving a
// deadline later is free: the heap entry is corrected when it comes up. This pays off, because an owner's deadline moves later with
// every acknowledgement and almost never fires.
//
// The zero value is empty. It is not safe for concurrent use.
type Deadlines struct {
	heap []entry
	pos  []int32 // owner -> index in heap plus one; zero if absent
	want []Time  // owner -> its true deadline, never earlier than its heap entry
}

type entry struct {
	at    Time
	owner uint32
}

// Set sets the deadline of owner to at; Never removes it. It allocates only if owner is larger than any before.
func (d *Deadlines) Set(owner uint32, at Time) {
	for uint32(len(d.pos)) <= owner {
		d.pos = append(d.pos, 0)
		d.want = append(d.want, Never)
	}
	d.want[owner] = at
	i := int(d.pos[owner]) - 1
	switch {
	case at == Never:
		if i >= 0 {
			d.remove(i)
		}
	case i < 0:
		d.heap = append(d.heap, entry{at, owner})
		d.pos[owner] = int32(len(d.heap))
		d.up(len(d.heap) - 1)
	case at < d.heap[i].at:
		d.heap[i].at = at
		d.up(i)
	}
}

// Next returns a time at which to call PopDue: the earliest deadline, or earlier.
func (d *Deadlines) Next() Time {
	if len(d.heap) == 0 {
		return Never
	}
	return d.heap[0].at
}

// PopDue removes one owner whose deadline is not after now. Call it until ok is false.
func (d *Deadlines) PopDue(now Time) (owner uint32, ok bool) {
	for len(d.heap) > 0 && d.heap[0].at <= now {
		top := d.heap[0].owner
		if want := d.want[top]; want > now {
			d.heap[0].at = want
			d.down(0)
			continue
		}
		d.remove(0)
		d.want[top] = Never
		return top, true
	}
	return 0, false
}

// Len returns the number of owners with a deadline.
func (d *Deadlines) Len() int { return len(d.heap) }

func (d *Deadlines) remove(i int) {
	last := len(d.heap) - 1
	d.pos[d.heap[i].owner] = 0
	if i != last {
		d.heap[i] = d.heap[last]
		d.pos[d.heap[i].owner] = int32(i + 1)
	}
	d.heap = d.heap[:last]
	if i != last {
		d.down(i)
		d.up(i)
	}
}

func (d *Deadlines) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if d.heap[parent].at <= d.heap[i].at {
			return
		}
		d.swap(i, parent)
		i = parent
	}
}

func (d *Deadlines) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			return
		}
		if child+1 < len(d.heap) && d.heap[child+1].at < d.heap[child].at {
			child++
		}
		if d.heap[i].at <= d.heap[child].at {
			return
		}
		d.swap(i, child)
		i = child
	}
}

func (d *Deadlines) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.pos[d.heap[i].owner] = int32(i + 1)
	d.pos[d.heap[j].owner] = int32(j + 1)
}
