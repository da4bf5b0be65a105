package secure

import (
	"time"

	"github.com/ndxdp/ndxdp/internal/aead"
	"github.com/ndxdp/ndxdp/wire"
)

// Packages aead and wire both state the length of a tag, because neither of them imports its neighbour.
const (
	_ = uint(aead.TagLen - wire.TagLen)
	_ = uint(wire.TagLen - aead.TagLen)
)

// Limits say how long keys are used. The protocol has one set of limits (Standard). Tests have smaller limits.
type Limits struct {
	// Update is how many packets a generation seals before the next generation begins.
	Update uint64
	// Age is how long a generation seals before the next generation begins.
	Age time.Duration
	// Most is how many packets a generation seals at most. The last Reserve of them are for the messages that end the connection.
	Most uint64
	// Forged is how many packets with wrong tags a connection survives.
	Forged uint64
	// Keep is how long the generation before the present one still opens packets.
	Keep time.Duration
	// Burst is how many updates a peer may make at once, and Every the time in which it may make one more. A peer that exceeds this
	// floods. Zero for Every is no limit.
	Burst int
	Every time.Duration
}

// Reserve is how many packets of a generation are kept for the messages that end a connection whose key is used up.
const Reserve = 1024

// Standard are the limits of the protocol. Most is the limit of AES-GCM for packets of up to 64 KiB. Forged is the limit of
// ChaCha20-Poly1305. Each is the lowest limit of all ciphers (RFC 9001 §6.6 and appendix B.1). An honest peer takes far longer than
// Every for Update packets.
var Standard = Limits{Update: 1 << 21, Age: time.Hour, Most: 1 << 23, Forged: 1 << 36, Keep: 2 * time.Second, Burst: 8, Every: 250 * time.Millisecond}
