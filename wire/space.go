package wire

// Space is one of the two independently ordered streams of messages that each side sends (PROTOCOL §1).
type Space uint8

// The spaces and their number (PROTOCOL §1, §3.2).
const (
	RequestSpace  Space = 0 // requests of the sender's application
	ResponseSpace Space = 1 // READ responses and TERM
	NumSpaces           = 2
)

// String returns the name of the space.
func (s Space) String() string {
	switch s {
	case RequestSpace:
		return "request"
	case ResponseSpace:
		return "response"
	}
	return "unknown"
}

// ExpandMessage returns the message number with these low 16 bits that is nearest to expected (PROTOCOL §3.1). It is unique,
// because senders have fewer than MaxMessages in flight.
func ExpandMessage(low uint16, expected uint32) uint32 {
	return expected + uint32(int32(int16(low-uint16(expected))))
}
