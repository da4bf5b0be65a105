package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// version is the version of the messages. Both ends must have the same version.
const version = 3

// Limits of messages and clients.
const (
	// maxMessage is the longest message in bytes. A request has about 150, a reply about 400 plus the text of an error.
	maxMessage = 8 << 10
	// maxReason is the largest length of an error's text in bytes. JSON may encode each byte in six.
	maxReason = 1 << 10
	// MaxQueues is the largest number of sockets in a grant. The kernel passes at most 253 descriptors at once (SCM_MAX_FD).
	MaxQueues = 64
	// MaxArena is the largest amount of application memory that a client may pin, in bytes, in addition to frames.
	MaxArena = 256 << 20
	// MaxRing is the largest ring in bytes.
	MaxRing = 64 << 20
	// maxClients is the largest number of connected clients. One of them has AF_XDP. The number of rings is limited by the kernel's
	// number of tcx programs on an interface (BPF_MPROG_MAX).
	maxClients = 64
	// maxOfUser is the largest number of clients of one user, so that other users have room.
	maxOfUser = maxClients / 2
	// maxStrangers is the largest number of users that are told at the same time that they may not use the broker. Further
	// connections are closed without an answer.
	maxStrangers = 8
)

const _ = uint(252 - MaxQueues)

// Time-outs of both ends.
const (
	requestTimeout = 5 * time.Second // for a client's request, and for the delivery of the reply
	// handover is how long the next client waits for the previous one, whose end the broker may not have detected yet.
	handover = 2 * time.Second
	// handoverOfRings is the same for a client that otherwise gets a ring.
	handoverOfRings = 100 * time.Millisecond
	// replyTimeout exceeds the time for everything that a broker does: handover, binding busy queues, loading a program.
	replyTimeout = 20 * time.Second
)

// Request is what a client requests.
type Request struct {
	Version  int        `json:"version"`
	Address  netip.Addr `json:"address"` // a local address of the interface
	UDPPort  uint16     `json:"udp_port"`
	Datapath string     `json:"datapath"` // auto, generic or native; ring for a ring beside the client's UDP socket
	Arena    int        `json:"arena"`    // bytes, 0 to MaxArena
	// Unbidden means that the user did not name the broker and that the client has an alternative. Such a request is refused rather
	// than delayed, and no process is ended for it.
	Unbidden bool `json:"unbidden,omitempty"`

	Socket int `json:"-"` // the UDP socket; 0 for none; the broker closes its descriptor when the ring is open
}

// ring reports whether a ring is requested.
func (r *Request) ring() bool { return r.Datapath == Ring }

// Ring is the datapath of a ring in requests and grants.
const Ring = "ring"

// check returns an error for an invalid request. Requests are not trusted.
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
		return errors.New("the request for a ring lacks the UDP socket whose packets the ring is to receive")
	}
	return nil
}

// Grant describes the descriptors that come with it.
type Grant struct {
	Ifindex  int     `json:"ifindex"`
	MAC      [6]byte `json:"mac"`
	Datapath string  `json:"datapath"` // generic, native or ring
	Reason   string  `json:"reason"`   // why the broker chose this datapath
	Queues   int     `json:"queues"`   // number of queues and sockets
	// Frames of each socket, and slots of its rings.
	RxFrames       uint32 `json:"rx_frames"`
	TxFrames       uint32 `json:"tx_frames"`
	RxRing         uint32 `json:"rx_ring"`
	FillRing       uint32 `json:"fill_ring"`
	TxRing         uint32 `json:"tx_ring"`
	CompletionRing uint32 `json:"completion_ring"`

	Arena        int    `json:"arena"`         // bytes of application memory behind all frames
	MultiBuffer  bool   `json:"multi_buffer"`  // packets may have several frames
	SingleBuffer bool   `json:"single_buffer"` // the program accepts only packets of one frame
	ZeroCopy     bool   `json:"zero_copy"`
	Copying      string `json:"copying,omitempty"` // why the sockets use copy mode
	SendBuffer   int    `json:"send_buffer"`       // bytes
	TxBudget     uint32 `json:"tx_budget"`         // descriptors for each sendto

	RingBytes int `json:"ring_bytes,omitempty"` // size of a ring, whose descriptors are the ring and its page; a ring has no queues
}

// descriptors returns the number of descriptors of the grant, or 0 if the grant is invalid.
func (g *Grant) descriptors() int {
	switch {
	case g.Datapath == Ring && g.Queues == 0 && g.RingBytes > 0 && g.RingBytes <= MaxRing:
		return 2
	case g.Datapath != Ring && g.Queues >= 1 && g.Queues <= MaxQueues:
		return 1 + g.Queues
	}
	return 0
}

// reply is a grant, or the reason of a refusal.
type reply struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	Rings   bool   `json:"rings,omitempty"` // with an error: a ring is available instead
	Grant   *Grant `json:"grant,omitempty"`
}

// check returns an error for an invalid reply, or for a refusal. descriptors is the number of descriptors that came with it.
func (r *reply) check(descriptors int) error {
	switch {
	case r.Error != "" && r.Rings:
		return &RingsError{errors.New(r.Error)}
	case r.Error != "":
		return errors.New(r.Error)
	case r.Version != version:
		return fmt.Errorf("the broker speaks version %d of its messages, this program version %d: use one release for both", r.Version, version)
	case r.Grant == nil:
		return errors.New("the broker's answer has neither a grant nor an error")
	case descriptors == 0 || descriptors != r.Grant.descriptors():
		return fmt.Errorf("the broker grants %s with %d queues, a ring of %d bytes and %d descriptors", r.Grant.Datapath, r.Grant.Queues, r.Grant.RingBytes, descriptors)
	}
	return nil
}

// RingsError is a broker's refusal of AF_XDP to a client that may have a ring instead.
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
		err = fmt.Errorf("the message has %d bytes, and %d at most are allowed", len(b), maxMessage)
	}
	return b, err
}
