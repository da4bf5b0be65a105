package space

// Place is a stream offset in a space: a message number and an offset in this message (PROTOCOL §3.1). Stream offsets are circular:
// two of them can be compared while their messages are less than 2^31 apart. The end of a message is the beginning of the next one.
type Place uint64

// At returns the stream offset of a byte in a message.
func At(message, offset uint32) Place { return Place(message)<<32 | Place(offset) }

// Message returns the message number.
func (p Place) Message() uint32 { return uint32(p >> 32) }

// Offset returns the offset in the message.
func (p Place) Offset() uint32 { return uint32(p) }

// Before reports whether p comes before q.
func (p Place) Before(q Place) bool { return int64(p-q) < 0 }

// NextMessage returns the beginning of the next message.
func (p Place) NextMessage() Place { return At(p.Message()+1, 0) }

// After returns the stream offset n bytes behind p. If the message ends there, it returns the beginning of the next message.
func (p Place) After(n uint32, last bool) Place {
	if last {
		return p.NextMessage()
	}
	return p + Place(n)
}

// later returns the later of two stream offsets.
func later(p, q Place) Place {
	if p.Before(q) {
		return q
	}
	return p
}

// earlier returns the earlier of two stream offsets.
func earlier(p, q Place) Place {
	if q.Before(p) {
		return q
	}
	return p
}
