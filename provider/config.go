package provider

import (
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/answers"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/provider/internal/secure"
	"github.com/ndxdp/ndxdp/wire"
)

// MaxTransfer is the most bytes one request may move.
const MaxTransfer = 1 << 30

// MaxPrivateData is the most bytes of private data in a request, an accept or a rejection.
const MaxPrivateData = wire.MaxPrivateData

// MaxSGE is the most entries a request may have.
const MaxSGE = 16

// FixedPackets is the window of ControlFixed unless Config says something else.
const FixedPackets = 256

// maxReadLimit is the largest inbound or outbound read limit of a connection.
const maxReadLimit = answers.MaxReads

// DefaultHeldBytes is the default of Config.HeldBytes. With one engine, a connection may use half of it, 32 MiB. That is more than the
// bandwidth-delay product of a path with 10 Gb/s and 20 ms (25 MB).
const DefaultHeldBytes = 64 << 20

// Config tunes an engine. The zero value of a field takes the default named beside it.
type Config struct {
	// UDPPort is the well-known port, which REQs go to (PROTOCOL §2).
	UDPPort uint16
	// ReceivePort is the UDP port that the links receive on; default UDPPort.
	ReceivePort uint16
	// PortSpace is who else has the address on this machine; default nobody.
	PortSpace PortSpace
	// MaxConns bounds the connection table; default 1<<17.
	MaxConns int
	// HeldBytes bounds the memory of received packets that wait behind a gap, and of records of answers that are not acknowledged, over all connections; default DefaultHeldBytes.
	// A source has three quarters of it at the most. The engines of a group share it equally, but
	// each has 8 MiB of it. Half of an engine's share is the window of a connection. It is taken when packets wait, and given back.
	HeldBytes int
	// Runs says that the link has a kernel socket, which splits GSO batches of a peer into packets, and may send batches (PROTOCOL §7.1).
	Runs bool
	// BulkPort is the UDP port of the links' bulk lane, which they offer to peers (PROTOCOL §11.1): zero for none, and ReceivePort where that port takes runs, too.
	BulkPort uint16
	// LongAfter says that the bulk lane takes long packets, and that the network of its interface may keep GSO batches whole (PROTOCOL §11.2).
	// It is how many bytes a connection sends by the lane before it probes for long packets; zero for none.
	LongAfter int
	// BulkAlways sends by the lane whatever it carries, also where it is not known to be faster.
	BulkAlways bool
	// AckEvery is the number of packets after which the receiver sends an acknowledgement at the latest. The default is 64. Senders request
	// acknowledgements eight times a window, so this matters for windows of more than 512 packets and at the end of a long message.
	AckEvery int
	// Control is the congestion controller; default ControlDelay.
	Control Control
	// DataCenter says that routers mark packets as in data centers; ControlDelay then reacts as in RFC 8257. Otherwise a mark counts as a
	// loss (RFC 3168).
	DataCenter bool
	// NoECN offers and agrees to no marks: no packet of a connection can be marked, of either end.
	NoECN bool
	// FixedWindow is the window of ControlFixed, in packets; default FixedPackets.
	FixedWindow int
	// DeadPeer is how long the peer may make no progress, or be silent in the handshake; default 5 s.
	DeadPeer time.Duration
	// Stalled is how long the peer of an established connection may make no progress while something is on its way; default DeadPeer.
	Stalled time.Duration
	// KeepAlive is the idle time after which the peer is asked for a sign of life; default 10 s. With more connections than
	// maxKeepAlives allows for it is longer: two milliseconds for each. It is an eighth longer at the passive end of a connection.
	KeepAlive time.Duration
	// IdleAfter is the time without packets after which a connection gives back what it needs only to move data; default 1 s. It is a tenth
	// for a connection that has sent fewer than newFor packets.
	IdleAfter time.Duration
	// Disconnect is how long Disconnect waits for the peer's own; default 10 s.
	Disconnect time.Duration
	// Linger is how long a closed connection still answers repeated messages; default 2 s.
	Linger time.Duration
	// ResetKey is the secret of the tokens that prove RSTs (PROTOCOL §7.4). It lives as long as the host, so that a restarted process ends
	// the connections of its predecessor. Zero selects a key of the adapter's own.
	ResetKey [32]byte
	// KeyLimits say how long keys are used. The default is secure.Standard.
	KeyLimits KeyLimits
	// OnLost is told of connections that were lost, at most four a second, with the engine's last events. The owner calls it
	// inside a turn: it must not block. Nil for nobody.
	OnLost func(FlightRecord)
}

// The limits of timers and caps.
const (
	// ackDelay is the time after which the receiver speaks at the latest.
	ackDelay = 50 * time.Microsecond
	// minRTO bounds the retransmission time-out from below. A peer on a shared machine can be off its core for several milliseconds.
	minRTO = 2 * time.Millisecond
	// noReceive is how long a SEND may wait for the peer to post a receive. It is less than the 5 s of a dead peer.
	noReceive = 2 * time.Second
	// maxKeepAlives is how many idle connections are asked for a sign of life in a second at the most. Asking and answering
	// costs each end about 10 µs: 0.5 % of a core, however many connections there are.
	maxKeepAlives = 500
)

func orDuration(v *time.Duration, def time.Duration) {
	if *v <= 0 {
		*v = def
	}
}

func (c *Config) setDefaults() {
	if c.UDPPort == 0 {
		c.UDPPort = wire.DefaultPort
	}
	if c.ReceivePort == 0 {
		c.ReceivePort = c.UDPPort
	}
	if c.PortSpace == nil {
		c.PortSpace = ndports.Alone{}
	}
	if c.MaxConns <= 0 {
		c.MaxConns = 1 << 17
	}
	if c.HeldBytes <= 0 {
		c.HeldBytes = DefaultHeldBytes
	}
	if c.AckEvery <= 0 {
		c.AckEvery = 64
	}
	if c.FixedWindow <= 0 {
		c.FixedWindow = FixedPackets
	}
	if c.KeyLimits == (KeyLimits{}) {
		c.KeyLimits = secure.Standard
	}
	orDuration(&c.DeadPeer, 5*time.Second)
	orDuration(&c.Stalled, c.DeadPeer)
	orDuration(&c.KeepAlive, 10*time.Second)
	orDuration(&c.IdleAfter, time.Second)
	orDuration(&c.Disconnect, 10*time.Second)
	orDuration(&c.Linger, 2*time.Second)
}
