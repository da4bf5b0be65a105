package outcome

// Finish receives the outcome of a pending request, exactly once. It runs with the engine's owner lock held: it must not block and
// must not call the engine. Exception: the Finish of Accept and CompleteConnect may call NotifyDisconnect of its connector.
type Finish func(Outcome)

// Waiters is a list of calls that wait for one event, oldest first. The zero value is empty. The owner guards it.
type Waiters struct {
	list []waiter
	last uint64 // newest id
}

type waiter struct {
	id  uint64
	fin Finish
}

// Add appends a call and returns its id for Cancel. The id is never zero.
func (w *Waiters) Add(fin Finish) (id uint64) {
	w.last++
	w.list = append(w.list, waiter{w.last, fin})
	return w.last
}

// Len returns the number of waiting calls.
func (w *Waiters) Len() int { return len(w.list) }

// Finish ends every call with o, oldest first. A call added meanwhile waits for the next event.
func (w *Waiters) Finish(o Outcome) {
	list := w.list
	w.list = nil
	for i := range list {
		list[i].fin(o)
		list[i] = waiter{}
	}
	if w.list == nil {
		w.list = list[:0]
	}
}

// Cancel ends one call with o. It returns false if the call did not wait any more.
func (w *Waiters) Cancel(id uint64, o Outcome) bool {
	for i := range w.list {
		if w.list[i].id != id {
			continue
		}
		fin := w.list[i].fin
		w.list = append(w.list[:i], w.list[i+1:]...)
		fin(o)
		return true
	}
	return false
}
