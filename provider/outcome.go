package provider

import "github.com/ndxdp/ndxdp/provider/internal/outcome"

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
	CausePeerFailed, CauseOverrun, CauseProtocol, NumCauses                   = outcome.PeerFailed, outcome.Overrun, outcome.Protocol, outcome.NumCauses
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
