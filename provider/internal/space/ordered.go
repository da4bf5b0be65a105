package space

import "slices"

// ordered is a list of items sorted by stream offset. The zero value is empty.
//
// It is stored in chunks, so that inserting or removing an item moves at most the items of one chunk. So a peer cannot make packets
// expensive by leaving holes from the last to the first, or by acknowledging in any order.
type ordered[T keyed] struct {
	chunks [][]T // each has 1 to perChunk items; a single chunk may be empty
	first  int   // first used index in the first chunk; items before it were removed
	n      int
	spare  []T // memory of a removed chunk, for reuse
}

// keyed is an item of an ordered list.
type keyed interface{ key() Place }

// spot is the position of an item. It is valid until the next insert or remove. The position behind all items is in the last chunk.
type spot struct{ chunk, i int }

// perChunk is the capacity of a chunk. A full chunk is split in halves, except the last one when items arrive in order. Two
// neighbours that together are at most half full are joined.
const perChunk = 64

// len returns the number of items.
func (l *ordered[T]) len() int { return l.n }

// front returns the position of the first item.
func (l *ordered[T]) front() spot { return spot{0, l.first} }

// has reports whether there is an item at a position.
func (l *ordered[T]) has(s spot) bool { return s.chunk < len(l.chunks) && s.i < len(l.chunks[s.chunk]) }

// get returns the item at a position.
func (l *ordered[T]) get(s spot) *T { return &l.chunks[s.chunk][s.i] }

// last returns the last item. The list must not be empty.
func (l *ordered[T]) last() *T {
	tail := l.chunks[len(l.chunks)-1]
	return &tail[len(tail)-1]
}

// after returns the position behind an item.
func (l *ordered[T]) after(s spot) spot { return l.settle(spot{s.chunk, s.i + 1}) }

// settle turns the end of a chunk into the beginning of the next chunk.
func (l *ordered[T]) settle(s spot) spot {
	if s.i == len(l.chunks[s.chunk]) && s.chunk < len(l.chunks)-1 {
		return spot{s.chunk + 1, 0}
	}
	return s
}

// before returns the item before a position, or nil if there is none.
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

// search returns the position of the first item whose key is not before a stream offset. It checks the end first, because most
// searches lead there.
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

// insert inserts an item before a position, and returns the position of the new item.
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

// split splits a full chunk and returns the new position of s.
func (l *ordered[T]) split(s spot) spot {
	full, half := l.chunks[s.chunk], perChunk/2
	if s.chunk == len(l.chunks)-1 && s.i == perChunk {
		half = perChunk // the next items will be appended, too
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
		if s.chunk == len(l.chunks) { // the last chunk was dropped
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

// join joins a chunk and the next one if the result is at most half full. It reports whether it did.
func (l *ordered[T]) join(c int) bool {
	if c == len(l.chunks)-1 || len(l.chunks[c])+len(l.chunks[c+1]) > perChunk/2 {
		return false
	}
	l.chunks[c] = append(l.chunks[c], l.chunks[c+1]...)
	l.drop(c + 1)
	return true
}

// drop clears a chunk, and removes it unless it is the only one.
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
