package provider

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/provider/internal/completion"
	"github.com/ndxdp/ndxdp/provider/internal/link"
	"github.com/ndxdp/ndxdp/provider/internal/memory"
	"github.com/ndxdp/ndxdp/provider/internal/ndports"
	"github.com/ndxdp/ndxdp/provider/internal/outcome"
	"github.com/ndxdp/ndxdp/provider/internal/packet"
	"github.com/ndxdp/ndxdp/provider/internal/trace"
	"github.com/ndxdp/ndxdp/wire"
)

// The names of package completion that upper layers use.
type (
	// RequestKind says what a completed request was.
	RequestKind = completion.RequestKind
	// Result is one completion.
	Result = completion.Result
	// NotifyLevel is what a notification waits for.
	NotifyLevel = completion.NotifyLevel
	// CQ is a completion queue.
	CQ = completion.Queue
)

// The kinds of requests, and the levels of notifications.
const (
	KindReceive      = completion.KindReceive
	KindSend         = completion.KindSend
	KindBind         = completion.KindBind
	KindInvalidate   = completion.KindInvalidate
	KindRead         = completion.KindRead
	KindWrite        = completion.KindWrite
	KindFastRegister = completion.KindFastRegister
	NotifyErrors     = completion.NotifyErrors
	NotifySolicited  = completion.NotifySolicited
	NotifyAny        = completion.NotifyAny
)

// NewCQ makes a completion queue of at least depth results.
func NewCQ(depth int) *CQ { return completion.NewQueue(depth) }

// Moderate starts the time of notifications that were held back, for the caller of Arm; the engine does it itself for results
// that it publishes.
func (e *Engine) Moderate(q *CQ) { e.results.Moderate(q, e.now) }

// The names of package link that upper layers use.
type (
	// Link is the engine's only view of the network. It is called by the engine's owner only, in batches.
	Link = link.Link
	// Pressured is a Link that knows how full its receive memory is.
	Pressured = link.Pressured
	// Backlogged is a Link whose device can be too busy for what Transmit took. Its owner calls it.
	Backlogged = link.Backlogged
	// Limited is a Link that knows the MTU which the kernel's route of a path sets.
	Limited = link.Limited
	// Copier is a Link that has read all of a packet when Transmit returns.
	Copier = link.Copier
	// Path names a route to a peer inside one link. Zero is never a path.
	Path = link.Path
	// Frag is one contiguous piece of a packet.
	Frag = link.Frag
	// RxPacket is a packet that arrived.
	RxPacket = link.RxPacket
	// TxPacket is a packet to send.
	TxPacket = link.TxPacket
)

// How packets lie in frames; package link says what each one means.
const (
	MaxFrags  = link.MaxFrags
	Headroom  = link.Headroom
	FrameSize = link.FrameSize
	// Lent is the ID of memory that is no link's.
	Lent = link.Lent
	// TxBatch is how many packets come to Transmit together at the most.
	TxBatch = packet.TxBatch
)

// Names of package memory for upper layers.
type (
	// Memory is the table of an adapter's regions and windows.
	Memory = memory.Table
	// Region is registered memory.
	Region = memory.Region
	// MemoryWindow grants the peer of one queue pair access to part of a region while it is bound.
	MemoryWindow = memory.Window
	// Domain is a protection domain. A region of a domain serves only queue pairs of this domain.
	Domain = memory.Domain
	// Token names a region or a window in requests, on this side and at the peer. Zero is not a token.
	Token = memory.Token
	// Rights are the allowed accesses to a region or window. Local reads need no right.
	Rights = memory.Rights
)

// Rights of a region. A window has only remote rights.
const (
	RightLocalWrite  = memory.RightLocalWrite
	RightRemoteRead  = memory.RightRemoteRead
	RightRemoteWrite = memory.RightRemoteWrite
)

// NewMemory makes an empty table. Tokens are drawn from rng, which must be unpredictable outside tests. The table calls rng under
// its lock, from any goroutine.
func NewMemory(rng *rand.Rand) *Memory { return memory.NewTable(rng) }

// Outcome is how a request or a call ended, as the engine sees it. It is a cause, not a code: each public surface maps it
// to its own status. Outcome implements error; OutcomeSuccess is never returned as one.
type Outcome = outcome.Outcome

// Finish receives the outcome of a pending request, exactly once, with the engine's owner lock held: it must not block
// and must not call back into the engine. That of Accept and CompleteConnect may call NotifyDisconnect of its connector.
type Finish = outcome.Finish

// Cause is why a connection ended; package outcome says what each one means.
type Cause = outcome.Cause

// The causes.
const (
	CausePeerDisconnected, CausePeerGone, CauseRefusedThere, CauseRefusedHere = outcome.PeerDisconnected, outcome.PeerGone, outcome.RefusedThere, outcome.RefusedHere
	CauseLocalMemory, CauseLocalRight, CauseLocalRequest, CauseNoReceive      = outcome.LocalMemory, outcome.LocalRight, outcome.LocalRequest, outcome.NoReceive
	CausePeerFailed, CauseOverrun, CauseProtocol                              = outcome.PeerFailed, outcome.Overrun, outcome.Protocol
	CausePeerHasNoTLS, CausePeerWantsTLS, NumCauses                           = outcome.PeerHasNoTLS, outcome.PeerWantsTLS, outcome.NumCauses
)

// The outcomes; package outcome says what each one means.
const (
	OutcomeSuccess               = outcome.Success
	OutcomeCanceled              = outcome.Canceled
	OutcomeAccessViolation       = outcome.AccessViolation
	OutcomeReadRefused           = outcome.ReadRefused
	OutcomeRemoteError           = outcome.RemoteError
	OutcomeBufferOverflow        = outcome.BufferOverflow
	OutcomeIOTimeout             = outcome.IOTimeout
	OutcomeInvalidRequest        = outcome.InvalidRequest
	OutcomeDataOverrun           = outcome.DataOverrun
	OutcomeNoMoreEntries         = outcome.NoMoreEntries
	OutcomeConnectionInvalid     = outcome.ConnectionInvalid
	OutcomeConnectionActive      = outcome.ConnectionActive
	OutcomeInvalidState          = outcome.InvalidState
	OutcomeRefused               = outcome.Refused
	OutcomeDeclined              = outcome.Declined
	OutcomeAborted               = outcome.Aborted
	OutcomeWithdrawn             = outcome.Withdrawn
	OutcomeHostUnreachable       = outcome.HostUnreachable
	OutcomeNetworkUnreachable    = outcome.NetworkUnreachable
	OutcomePathTooSmall          = outcome.PathTooSmall
	OutcomeAddressExists         = outcome.AddressExists
	OutcomeAddressAssociated     = outcome.AddressAssociated
	OutcomeSharingViolation      = outcome.SharingViolation
	OutcomeTooManyAddresses      = outcome.TooManyAddresses
	OutcomeBadNetworkName        = outcome.BadNetworkName
	OutcomeInvalidBufferSize     = outcome.InvalidBufferSize
	OutcomeParameterMix          = outcome.ParameterMix
	OutcomeInsufficientResources = outcome.InsufficientResources
	OutcomeDeviceBusy            = outcome.DeviceBusy
	OutcomeDeviceRemoved         = outcome.DeviceRemoved
)

// Endpoint is an address and an ND port.
type Endpoint = wire.Endpoint

// The names of package ndports that upper layers use.
type (
	// PortSpace is who has which ND port of an adapter's address on this machine.
	PortSpace = ndports.PortSpace
	// HandOver is what became of a REQ for an ND port of others.
	HandOver = ndports.HandOver
)

// Results of PortSpace.HandOver; package ndports documents them.
const (
	HandOverNobody  = ndports.Nobody
	HandOverDone    = ndports.Done
	HandOverDropped = ndports.Dropped
	HandOverRefused = ndports.Refused
)

// EndpointFrom converts an address; IPv4 is mapped into IPv6.
func EndpointFrom(ap netip.AddrPort) Endpoint { return wire.EndpointFrom(ap) }

// The names of package trace that upper layers use.
type (
	// Stats counts what an engine did. All counts are totals since the engine was made, except Connections.
	Stats = trace.Stats
	// Limit is what keeps a connection from sending more now.
	Limit = trace.Limit
	// Latency is where the time of initiator requests goes.
	Latency = trace.Latency
	// FlightRecord is a copy of an engine's last events, oldest first.
	FlightRecord = trace.FlightRecord
	// FlightEvent is one event, or several of the same kind that followed each other.
	FlightEvent = trace.FlightEvent
	// InterfaceChange is what happened to the interface beneath a link, in an event of the flight recorder.
	InterfaceChange = trace.InterfaceChange
)

// The limits, the kinds of events and the changes of an interface; package trace says what each one means.
const (
	LimitApplication       = trace.LimitApplication
	LimitReceive           = trace.LimitReceive
	LimitRead              = trace.LimitRead
	LimitFabric            = trace.LimitFabric
	LimitEndpoint          = trace.LimitEndpoint
	LimitRing              = trace.LimitRing
	LimitCPU               = trace.LimitCPU
	NumLimits              = trace.NumLimits
	NumLatencies           = trace.NumLatencies
	FlightState            = trace.FlightState
	FlightLoss             = trace.FlightLoss
	FlightProbe            = trace.FlightProbe
	FlightTimeout          = trace.FlightTimeout
	FlightSpurious         = trace.FlightSpurious
	FlightMove             = trace.FlightMove
	FlightPath             = trace.FlightPath
	FlightBulk             = trace.FlightBulk
	FlightLong             = trace.FlightLong
	FlightPause            = trace.FlightPause
	FlightECN              = trace.FlightECN
	FlightLost             = trace.FlightLost
	FlightInterface        = trace.FlightInterface
	FlightTLS              = trace.FlightTLS
	FlightKeys             = trace.FlightKeys
	InterfaceUp            = trace.InterfaceUp
	InterfaceDown          = trace.InterfaceDown
	InterfaceMTU           = trace.InterfaceMTU
	InterfaceMAC           = trace.InterfaceMAC
	InterfaceMaster        = trace.InterfaceMaster
	InterfaceLower         = trace.InterfaceLower
	InterfaceQueues        = trace.InterfaceQueues
	InterfaceNeighbour     = trace.InterfaceNeighbour
	InterfaceNeighbourLost = trace.InterfaceNeighbourLost
	InterfaceRoute         = trace.InterfaceRoute
	InterfaceNoRoute       = trace.InterfaceNoRoute
	InterfaceResync        = trace.InterfaceResync
	InterfaceEnded         = trace.InterfaceEnded
)

// LatencyBound returns the longest time of a class of Stats.Latencies.
func LatencyBound(class int) time.Duration { return trace.LatencyBound(class) }

// DropNames returns the names of all reasons for which an engine drops a packet.
func DropNames() []string { return trace.DropNames() }
