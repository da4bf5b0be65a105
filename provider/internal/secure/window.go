package secure

const (
	wordBits    = 64
	windowWords = 128
	// Span is how far below the largest number a Window still knows each number. It is one word less than the memory holds, because
	// the word with the largest number also has room for numbers above it.
	Span = (windowWords - 1) * wordBits
)

// Window knows which packet numbers were opened (RFC 6479). Numbers more than Span below the largest one count as opened. The zero
// value has seen nothing. It takes a kilobyte, so only connections with traffic have one.
type Window struct {
	floor   uint64 // lower numbers count as opened
	largest uint64 // largest number that was opened, plus one; zero if none was
	words   [windowWords]uint64
}

// Start forgets everything. Numbers below floor count as opened from now on.
func (w *Window) Start(floor uint64) { *w = Window{floor: floor} }

// End returns the number behind the largest number that was opened, and at least the floor. A Window that starts there refuses
// everything that this one would refuse.
func (w *Window) End() uint64 { return max(w.floor, w.largest) }

// Fresh reports whether a number was not opened yet.
func (w *Window) Fresh(number uint64) bool {
	switch {
	case number < w.floor:
		return false
	case number >= w.largest:
		return true
	case number+Span < w.largest:
		return false
	}
	return w.words[number/wordBits%windowWords]&(1<<(number%wordBits)) == 0
}

// Mark records that a number was opened. Fresh must have returned true for it.
func (w *Window) Mark(number uint64) {
	word := number / wordBits
	if number >= w.largest {
		if w.largest != 0 {
			last := (w.largest - 1) / wordBits
			for i := uint64(1); i <= min(word-last, windowWords); i++ {
				w.words[(last+i)%windowWords] = 0
			}
		}
		w.largest = number + 1
	}
	w.words[word%windowWords] |= 1 << (number % wordBits)
}
