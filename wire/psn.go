package wire

// PSN numbers the contents of packets: 32 bits, circular, one sequence per direction and space (PROTOCOL §1, §3.1).
type PSN uint32

// Add returns the PSN n packets after p (PROTOCOL §1).
func (p PSN) Add(n uint32) PSN { return p + PSN(n) }

// Sub returns the circular distance from o to p: positive when p is after o. It is meaningful while the two are less
// than 2^31 packets apart, which the window guarantees (PROTOCOL §1).
func (p PSN) Sub(o PSN) int32 { return int32(p - o) }

// Less reports whether p comes before o on the circle (PROTOCOL §1).
func (p PSN) Less(o PSN) bool { return int32(p-o) < 0 }

// InWindow reports whether p is one of the n numbers that begin with start (PROTOCOL §1).
func (p PSN) InWindow(start PSN, n uint32) bool { return uint32(p-start) < n }

// Space names one of the two independently sequenced streams each side sends (PROTOCOL §1).
type Space uint8

// The sequence spaces, and their number (PROTOCOL §1, §3.2).
const (
	RequestSpace  Space = 0 // work the sender's application asked for
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
