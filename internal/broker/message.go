package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// version is that of the messages. Both ends must have the same one.
const version = 3

// The bounds of what is said.
const (
	// maxMessage is the longest message in bytes: a request has about 150, a reply about 400 and an error's text.
	maxMessage = 8 << 10
	// maxReason is how much of an error's text is told, in bytes; in JSON each can become six.
	maxReason = 1 << 10
	// MaxQueues is the most sockets of a grant. The kernel passes 253 descriptors at once (SCM_MAX_FD).
	MaxQueues = 64
	// MaxArena is how many bytes of memory for applications a client may have pinned, beside the frames.
	MaxArena = 256 << 20
	// MaxRing is the largest ring in bytes.
	MaxRing = 64 << 20
	// maxClients is how many clients may be connected. One of them has AF_XDP, as many as the kernel has programs at tcx of an interface (BPF_MPROG_MAX) a ring.
	maxClients = 64
	// maxOfUser is how many of them may be one user's: he leaves places for others.
	maxOfUser = maxClients / 2
	// maxStrangers is how many users that may not use the broker are told so at the same time; more are cut off without a word.
	maxStrangers = 8
)

const _ = uint(252 - MaxQueues)

// How long each end waits for its peer.
const (
	requestTimeout = 5 * time.Second // for a client's request, and for it to take the reply
	// handover is how long the next client waits for the last one, whose end the broker may not have noticed yet.
	handover = 2 * time.Second
	// handoverOfRings is that of a client that gets a ring otherwise.
	handoverOfRings = 100 * time.Millisecond
	// replyTimeout is longer than all that a broker does: handover, binding busy queues, loading a program.
	replyTimeout = 20 * time.Second
)

// Request says what a client wants to have opened.
type Request struct {
	Version  int        `json:"version"`
	Address  netip.Addr `json:"address"` // a local address of the interface
	UDPPort  uint16     `json:"udp_port"`
	Datapath string     `json:"datapath"` // auto, generic or native; ring for a ring, with the UDP socket that receives
	Arena    int        `json:"arena"`    // bytes, 0 to MaxArena
	// Unbidden says that nobody named the broker, and that the client has something else: it is refused rather than kept waiting, and nobody is ended for it.
	Unbidden bool `json:"unbidden,omitempty"`

	Socket int `json:"-"` // the UDP socket; 0 is none. The broker closes its descriptor once the ring is open
}

// ring reports whether a ring is asked for.
func (r *Request) ring() bool { return r.Datapath == Ring }

// Ring is the datapath of rings, in requests and grants.
const Ring = "ring"

// check says what is wrong with a request, whoever made it.
func (r *Request) check() error {
	switch {
	case r.Version != version:
		return fmt.Errorf("the client speaks version %d of the broker's messages, this broker version %d: use one release for both",
			r.Version, version)
	case !r.Address.IsValid() || r.Address.IsUnspecified() || r.Address.IsMulticast():
		return fmt.Errorf("%v is not an address of one host", r.Address)
	case r.UDPPort == 0:
		return errors.New("no UDP port was named")
	case r.Arena < 0 || r.Arena > MaxArena:
		return fmt.Errorf("%d bytes of memory were asked for: a broker gives %d at most", r.Arena, MaxArena)
	case r.ring() && r.Socket == 0:
		return errors.New("a ring was asked for without the socket that it stands in for")
	}
	return nil
}

// Grant says what the descriptors are that come with it.
type Grant struct {
	Ifindex  int     `json:"ifindex"`
	MAC      [6]byte `json:"mac"`
	Datapath string  `json:"datapath"` // generic, native or ring
	Reason   string  `json:"reason"`   // why this datapath
	Queues   int     `json:"queues"`   // and sockets
	// Frames of each socket, and slots of its rings.
	RxFrames       uint32 `json:"rx_frames"`
	TxFrames       uint32 `json:"tx_frames"`
	RxRing         uint32 `json:"rx_ring"`
	FillRing       uint32 `json:"fill_ring"`
	TxRing         uint32 `json:"tx_ring"`
	CompletionRing uint32 `json:"completion_ring"`

	Arena        int    `json:"arena"`         // bytes of memory behind all frames
	MultiBuffer  bool   `json:"multi_buffer"`  // packets may have several frames
	SingleBuffer bool   `json:"single_buffer"` // the program takes packets of one frame only
	ZeroCopy     bool   `json:"zero_copy"`
	Copying      string `json:"copying,omitempty"` // why the sockets copy
	BusyPoll     bool   `json:"busy_poll"`         // receiving on the sockets runs the driver
	SendBuffer   int    `json:"send_buffer"`       // bytes
	TxBudget     uint32 `json:"tx_budget"`         // descriptors for each sendto

	RingBytes int `json:"ring_bytes,omitempty"` // of a ring, which has no queues: its descriptors are those of the ring and of the page beside it
}

// descriptors returns how many come with the grant; 0 when it makes no sense.
func (g *Grant) descriptors() int {
	switch {
	case g.Datapath == Ring && g.Queues == 0 && g.RingBytes > 0 && g.RingBytes <= MaxRing:
		return 2
	case g.Datapath != Ring && g.Queues >= 1 && g.Queues <= MaxQueues:
		return 1 + g.Queues
	}
	return 0
}

// reply is a grant, or the reason why there is none.
type reply struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	Rings   bool   `json:"rings,omitempty"` // beside an error: a ring may be had instead
	Grant   *Grant `json:"grant,omitempty"`
}

// check says what is wrong with a reply that came with so many descriptors.
func (r *reply) check(descriptors int) error {
	switch {
	case r.Error != "" && r.Rings:
		return &RingsError{errors.New(r.Error)}
	case r.Error != "":
		return errors.New(r.Error)
	case r.Version != version:
		return fmt.Errorf("the broker speaks version %d of its messages, this program version %d: use one release for both", r.Version, version)
	case r.Grant == nil:
		return errors.New("the broker's answer grants nothing")
	case descriptors == 0 || descriptors != r.Grant.descriptors():
		return fmt.Errorf("the broker grants %s with %d queues, a ring of %d bytes and %d descriptors", r.Grant.Datapath, r.Grant.Queues, r.Grant.RingBytes, descriptors)
	}
	return nil
}

// RingsError is a broker's refusal of AF_XDP to a client that may have a ring.
type RingsError struct{ Err error }

// Error implements error.
func (e *RingsError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RingsError) Unwrap() error { return e.Err }

func refusal(err error, rings bool) reply {
	text := err.Error()
	return reply{Version: version, Error: text[:min(len(text), maxReason)], Rings: rings}
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > maxMessage {
		err = fmt.Errorf("a message of %d bytes, more than %d", len(b), maxMessage)
	}
	return b, err
}
