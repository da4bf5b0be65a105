package provider

// Outcome is how a request or a call ended, as the engine sees it. It is a cause, not a code: each public surface maps it
// to its own status. Outcome implements error; OutcomeSuccess is never returned as one.
type Outcome uint8

// The outcomes. Those that end work requests come first, then those of connections and calls.
const (
	OutcomeSuccess Outcome = iota
	OutcomeCanceled
	OutcomeAccessViolation // memory refused, here or at the peer: token, right, bounds of a Write
	OutcomeReadRefused     // the peer refused the memory that a Read named
	OutcomeRemoteError     // the peer could not take the message
	OutcomeBufferOverflow  // message longer than the receive; completion queue overrun; request too long
	OutcomeIOTimeout       // the peer's provider is silent, or never posted a receive
	OutcomeInvalidRequest  // bind of a bound window, invalidation of another one, read with read limit zero

	OutcomeDataOverrun       // more entries than the queue pair takes
	OutcomeNoMoreEntries     // work queue full
	OutcomeConnectionInvalid // wrong connection state for this call
	OutcomeConnectionActive  // queue pair or connector in use
	OutcomeInvalidState      // object spent, listener not bound
	OutcomeRefused           // no listener, backlog full, or the passive side rejected
	OutcomeDeclined          // the active side declined after it saw the accept
	OutcomeAborted           // the active side gave up before it saw the accept, or the connection was cut off
	OutcomeWithdrawn         // the passive side withdrew after accepting
	OutcomeHostUnreachable
	OutcomeNetworkUnreachable
	OutcomeAddressExists
	OutcomeAddressAssociated
	OutcomeSharingViolation
	OutcomeTooManyAddresses
	OutcomeBadNetworkName
	OutcomeInvalidBufferSize
	OutcomeParameterMix // arguments that are right each for itself and make no sense together
	OutcomeInsufficientResources
	OutcomeDeviceBusy // a window is bound to the region
	OutcomeDeviceRemoved
	numOutcomes
)

var outcomeNames = [numOutcomes]string{
	"success", "canceled", "access violation", "read refused", "remote error", "buffer overflow", "I/O timeout",
	"invalid request", "too many entries", "work queue full", "connection invalid", "connection active", "invalid state",
	"connection refused", "declined by the active side", "connection aborted", "withdrawn by the passive side",
	"host unreachable", "network unreachable", "address already exists", "address already associated", "sharing violation",
	"too many addresses", "bad network name", "invalid buffer size", "invalid mix of parameters",
	"insufficient resources", "device busy", "device removed",
}

// String names the outcome.
func (o Outcome) String() string {
	if o < numOutcomes {
		return outcomeNames[o]
	}
	return "unknown outcome"
}

// Error implements error.
func (o Outcome) Error() string { return o.String() }

// Finish receives the outcome of a pending request, exactly once, with the engine's owner lock held: it must not block
// and must not call back into the engine. That of Accept and CompleteConnect may call NotifyDisconnect of its connector.
type Finish func(Outcome)
