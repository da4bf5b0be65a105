package shake

// Flight is the bytes of one level that a side sends. The zero value has none.
type Flight struct {
	bytes []byte
	have  int // bytes that the peer has received without a gap
}

// Write appends bytes of the handshake, which Flight copies. It returns false if the level would have more than MaxLevel bytes.
func (f *Flight) Write(b []byte) bool {
	if len(f.bytes)+len(b) > MaxLevel {
		return false
	}
	f.bytes = append(f.bytes, b...)
	return true
}

// Len returns the number of bytes so far.
func (f *Flight) Len() int { return len(f.bytes) }

// Have returns how many bytes the peer has received without a gap.
func (f *Flight) Have() int { return f.have }

// Done reports whether the peer has all bytes.
func (f *Flight) Done() bool { return f.have == len(f.bytes) }

// Acknowledge takes the number of bytes that the peer states. It returns false if so many were never written: the message must not be
// used. A smaller number than before is of an overtaken message and changes nothing.
func (f *Flight) Acknowledge(have int) bool {
	if have > len(f.bytes) {
		return false
	}
	f.have = max(f.have, have)
	return true
}

// Fragment returns the bytes from an offset on, at most most. It returns none at the end. The caller begins at Have, and continues
// behind what it got. The bytes are valid until the next Write.
func (f *Flight) Fragment(offset, most int) []byte {
	return f.bytes[min(offset, len(f.bytes)):min(offset+most, len(f.bytes))]
}

// Erase clears and forgets all bytes.
func (f *Flight) Erase() {
	clear(f.bytes)
	*f = Flight{}
}
