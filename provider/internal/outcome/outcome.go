package outcome

// Outcome is how a request or a call ended. Each public package maps it to its own status codes. Outcome implements error. Success
// is never returned as an error.
type Outcome uint8

// Outcomes of work requests come first, then outcomes of connections and calls.
const (
	Success Outcome = iota
	Canceled
	AccessViolation // memory refused, here or at the peer: token, right, or bounds of a Write
	ReadRefused     // the peer refused the memory of a Read
	RemoteError     // the peer could not accept the message
	BufferOverflow  // message longer than the receive; completion queue overrun; request too long
	IOTimeout       // the peer's provider is silent, or the peer never posted a receive
	InvalidRequest  // bind of a bound window, invalidation of an unbound window, or Read with read limit zero

	DataOverrun       // more entries than the queue pair allows
	NoMoreEntries     // work queue full
	ConnectionInvalid // wrong connection state for this call
	ConnectionActive  // queue pair or connector is in use
	InvalidState      // object already used, or listener not bound
	Refused           // no listener, backlog full, or the passive side rejected
	Declined          // the active side rejected the accept
	Aborted           // the active side gave up before the accept, or the connection was lost
	Withdrawn         // the passive side withdrew after it accepted
	HostUnreachable
	NetworkUnreachable
	PathTooSmall // a link on the path has a smaller MTU than the protocol needs
	AddressExists
	AddressAssociated
	SharingViolation
	TooManyAddresses
	BadNetworkName
	InvalidBufferSize
	ParameterMix // arguments that are valid alone but not together
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

// Error returns the name of the outcome.
func (o Outcome) Error() string { return o.String() }
