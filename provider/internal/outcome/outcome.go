package outcome

// Outcome is how a request or a call ended, as the engine sees it. It is a cause, not a code: each public surface maps it
// to its own status. Outcome implements error; Success is never returned as one.
type Outcome uint8

// The outcomes. Outcomes of work requests come first, then outcomes of connections and calls.
const (
	Success Outcome = iota
	Canceled
	AccessViolation // memory refused, here or at the peer: token, right, bounds of a Write
	ReadRefused     // the peer refused the memory that a Read named
	RemoteError     // the peer could not take the message
	BufferOverflow  // message longer than the receive; completion queue overrun; request too long
	IOTimeout       // the peer's provider is silent, or never posted a receive
	InvalidRequest  // bind of a bound window, invalidation of another one, read with read limit zero

	DataOverrun       // more entries than the queue pair takes
	NoMoreEntries     // work queue full
	ConnectionInvalid // wrong connection state for this call
	ConnectionActive  // queue pair or connector in use
	InvalidState      // object spent, listener not bound
	Refused           // no listener, backlog full, or the passive side rejected
	Declined          // the active side declined after it saw the accept
	Aborted           // the active side gave up before it saw the accept, or the connection was cut off
	Withdrawn         // the passive side withdrew after accepting
	HostUnreachable
	NetworkUnreachable
	PathTooSmall // a link on the way takes no packet as large as every path must carry
	AddressExists
	AddressAssociated
	SharingViolation
	TooManyAddresses
	BadNetworkName
	InvalidBufferSize
	ParameterMix // arguments that are right each for itself and make no sense together
	InsufficientResources
	DeviceBusy // a window is bound to the region
	DeviceRemoved
	numOutcomes
)

var names = [numOutcomes]string{
	"success", "canceled", "access violation", "read refused", "remote error", "buffer overflow", "I/O timeout",
	"invalid request", "too many entries", "work queue full", "connection invalid", "connection active", "invalid state",
	"connection refused", "declined by the active side", "connection aborted", "withdrawn by the passive side",
	"host unreachable", "network unreachable", "path MTU too small", "address already exists", "address already associated", "sharing violation",
	"too many addresses", "bad network name", "invalid buffer size", "invalid mix of parameters",
	"insufficient resources", "device busy", "device removed",
}

// String names the outcome.
func (o Outcome) String() string {
	if o < numOutcomes {
		return names[o]
	}
	return "unknown outcome"
}

// Error implements error.
func (o Outcome) Error() string { return o.String() }
