package space

// Place is a stream offset in a space: a message number and an offset in the message (PROTOCOL §3.1). Places are circular: they can be
// compared while their messages are less than 2^31 apart. Behind the last byte of a message is the beginning of the next one.
type Place uint64

// At returns the place of byte offset of a message.
func At(message, offset uint32) Place { return Place(message)<<32 | Place(offset) }

// Message returns the message.
func (p Place) Message() uint32 { return uint32(p >> 32) }

// Offset returns the byte in the message.
func (p Place) Offset() uint32 { return uint32(p) }

// Before says whether p comes before q.
func (p Place) Before(q Place) bool { return int64(p-q) < 0 }

// NextMessage returns the beginning of the message behind p.
func (p Place) NextMessage() Place { return At(p.Message()+1, 0) }

// After returns the place n bytes behind p, or the beginning of the next message when these are its last ones.
func (p Place) After(n uint32, last bool) Place {
	if last {
		return p.NextMessage()
	}
	return p + Place(n)
}

// later returns the place that comes later.
func later(p, q Place) Place {
	if p.Before(q) {
		return q
	}
	return p
}

// earlier returns the place that comes earlier.
func earlier(p, q Place) Place {
	if q.Before(p) {
		return q
	}
	return p
}
