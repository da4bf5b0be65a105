package space

import "slices"

// ordered keeps items at stream offsets of a space, in the order of their keys. Its zero value is empty.
//
// It is stored in chunks, so that inserting or removing an item moves at most the items of one chunk. A peer that leaves holes from the
// last to the first, or acknowledges in any order, costs no more for each packet than one that leaves a single hole.
type ordered[T keyed] struct {
	chunks [][]T // of 1 to perChunk each, in order; of none only where it is the only one
	first  int   // of the first chunk; what is before has left
	n      int
	spare  []T // memory of a chunk that has left
}

// keyed is what can be ordered.
type keyed interface{ key() Place }

// spot is where an element lies, until the next insert or remove. That behind all is in the last chunk.
type spot struct{ chunk, i int }

// perChunk is how many a chunk holds at the most. A full one is split in halves, but for the last one where elements come in order. Neighbours that have
// half of it together become one.
const perChunk = 64

// len is how many there are.
func (l *ordered[T]) len() int { return l.n }

// front is where the first one lies.
func (l *ordered[T]) front() spot { return spot{0, l.first} }

// has says whether a spot is not that behind all.
func (l *ordered[T]) has(s spot) bool { return s.chunk < len(l.chunks) && s.i < len(l.chunks[s.chunk]) }

// get returns what lies at a spot.
func (l *ordered[T]) get(s spot) *T { return &l.chunks[s.chunk][s.i] }

// last returns the last one. There must be one.
func (l *ordered[T]) last() *T {
	tail := l.chunks[len(l.chunks)-1]
	return &tail[len(tail)-1]
}

// after is the spot behind one at which something lies.
func (l *ordered[T]) after(s spot) spot { return l.settle(spot{s.chunk, s.i + 1}) }

// settle makes the end of a chunk the beginning of the next one.
func (l *ordered[T]) settle(s spot) spot {
	if s.i == len(l.chunks[s.chunk]) && s.chunk < len(l.chunks)-1 {
		return spot{s.chunk + 1, 0}
	}
	return s
}

// before returns what lies before a spot; nil when nothing does.
func (l *ordered[T]) before(s spot) *T {
	switch {
	case l.n == 0 || s == l.front():
		return nil
	case s.i > 0:
		return &l.chunks[s.chunk][s.i-1]
	}
	chunk := l.chunks[s.chunk-1]
	return &chunk[len(chunk)-1]
}

// search returns where the first one lies whose key is not before a place. Most are asked for at the end.
func (l *ordered[T]) search(at Place) spot {
	if l.n == 0 {
		return spot{}
	}
	low, high := 0, len(l.chunks)-1
	if (*l.last()).key().Before(at) {
		return spot{high, len(l.chunks[high])}
	}
	for low < high {
		middle := (low + high) / 2
		if c := l.chunks[middle]; c[len(c)-1].key().Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	chunk := low
	low, high = 0, len(l.chunks[chunk])
	if chunk == 0 {
		low = l.first
	}
	for low < high {
		middle := (low + high) / 2
		if l.chunks[chunk][middle].key().Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return spot{chunk, low}
}

// insert puts one before what lies at a spot, and returns where it lies.
func (l *ordered[T]) insert(s spot, v T) spot {
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, nil)
	}
	if s.chunk == 0 && l.first > 0 {
		l.chunks[0] = slices.Delete(l.chunks[0], 0, l.first)
		s.i, l.first = s.i-l.first, 0
	}
	if len(l.chunks[s.chunk]) == perChunk {
		s = l.split(s)
	}
	l.chunks[s.chunk] = slices.Insert(l.chunks[s.chunk], s.i, v)
	l.n++
	return s
}

// split makes room in a full chunk at a spot of it, and returns where that is now.
func (l *ordered[T]) split(s spot) spot {
	full, half := l.chunks[s.chunk], perChunk/2
	if s.chunk == len(l.chunks)-1 && s.i == perChunk {
		half = perChunk // the next ones come behind it as well
	}
	behind := append(slices.Grow(l.spare, perChunk), full[half:]...)
	l.spare = nil
	clear(full[half:])
	l.chunks[s.chunk] = full[:half]
	l.chunks = slices.Insert(l.chunks, s.chunk+1, behind)
	if s.i < half {
		return s
	}
	return spot{s.chunk + 1, s.i - half}
}

// remove removes the item at a spot, and returns the spot of the next item.
func (l *ordered[T]) remove(s spot) spot {
	l.n--
	chunk := l.chunks[s.chunk]
	if s == l.front() {
		clear(chunk[s.i : s.i+1])
		if l.first++; l.first == len(chunk) {
			l.first = 0
			l.drop(0)
		}
		return l.front()
	}
	chunk = slices.Delete(chunk, s.i, s.i+1)
	l.chunks[s.chunk] = chunk
	if len(chunk) == 0 {
		l.drop(s.chunk)
		if s.chunk == len(l.chunks) { // it was the last
			return spot{s.chunk - 1, len(l.chunks[s.chunk-1])}
		}
		return s
	}
	l.join(s.chunk)
	if s.chunk > 0 {
		if n := len(l.chunks[s.chunk-1]); l.join(s.chunk - 1) {
			s = spot{s.chunk - 1, n + s.i}
		}
	}
	return l.settle(s)
}

// join makes a chunk and the next one a single chunk, and reports so, if that is no more than half full.
func (l *ordered[T]) join(c int) bool {
	if c == len(l.chunks)-1 || len(l.chunks[c])+len(l.chunks[c+1]) > perChunk/2 {
		return false
	}
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.drop(c + 1)
	return true
}

// drop forgets what lies in a chunk, and the chunk, unless it is the only one.
func (l *ordered[T]) drop(c int) {
	chunk := l.chunks[c]
	clear(chunk)
	if len(l.chunks) == 1 {
		l.chunks[0] = chunk[:0]
		return
	}
	l.chunks = slices.Delete(l.chunks, c, c+1)
	l.spare = chunk[:0]
}
