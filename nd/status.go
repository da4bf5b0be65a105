package nd

import (
	"fmt"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Status is a NetworkDirect status code. It is an error that works with errors.Is:
//
//	if errors.Is(err, nd.ErrConnectionRefused) { … }
//
// A status is a failure if bit 31 is set, so statuses of the warning class (0x8…) are failures too.
type Status uint32

// The statuses of NetworkDirect that calls and results end with, with the numbers of the public headers.
const (
	StatusSuccess Status = 0x00000000

	ErrBufferOverflow        Status = 0x80000005
	ErrDeviceBusy            Status = 0x80000011
	ErrNoMoreEntries         Status = 0x8000001A
	ErrUnsuccessful          Status = 0xC0000001
	ErrAccessViolation       Status = 0xC0000005
	ErrInvalidParameter      Status = 0xC000000D
	ErrInvalidDeviceRequest  Status = 0xC0000010
	ErrNoMemory              Status = 0xC0000017
	ErrInvalidParameterMix   Status = 0xC0000030
	ErrDataOverrun           Status = 0xC000003C
	ErrSharingViolation      Status = 0xC0000043
	ErrInsufficientResources Status = 0xC000009A
	ErrDeviceNotReady        Status = 0xC00000A3
	ErrIOTimeout             Status = 0xC00000B5
	ErrBadNetworkName        Status = 0xC00000CC
	ErrCanceled              Status = 0xC0000120
	ErrRemoteError           Status = 0xC000013D
	ErrInvalidAddress        Status = 0xC0000141
	ErrInvalidDeviceState    Status = 0xC0000184
	ErrInvalidBufferSize     Status = 0xC0000206
	ErrTooManyAddresses      Status = 0xC0000209
	ErrAddressAlreadyExists  Status = 0xC000020A
	ErrConnectionRefused     Status = 0xC0000236
	ErrAddressAssociated     Status = 0xC0000238
	ErrConnectionInvalid     Status = 0xC000023A
	ErrConnectionActive      Status = 0xC000023B
	ErrNetworkUnreachable    Status = 0xC000023C
	ErrHostUnreachable       Status = 0xC000023D
	ErrConnectionAborted     Status = 0xC0000241
	ErrDeviceRemoved         Status = 0xC00002B6
)

// ErrInvalidParameterN returns ND_INVALID_PARAMETER_n: argument n (1 to 10) of the SPI's argument list is wrong.
func ErrInvalidParameterN(n int) Status { return 0xC00000EE + Status(n) }

// errInternal is the status of an outcome that statusOf lacks. A test holds that it lacks none.
const errInternal Status = 0xC00000E5

var statusText = map[Status][2]string{
	StatusSuccess:            {"ND_SUCCESS", "success"},
	ErrBufferOverflow:        {"ND_BUFFER_OVERFLOW", "more data than the buffer, queue or limit holds"},
	ErrDeviceBusy:            {"ND_DEVICE_BUSY", "still in use"},
	ErrNoMoreEntries:         {"ND_NO_MORE_ENTRIES", "the work queue is full: fetch results first"},
	ErrUnsuccessful:          {"ND_UNSUCCESSFUL", "unsuccessful"},
	ErrAccessViolation:       {"ND_ACCESS_VIOLATION", "memory access refused: token, range or right"},
	ErrInvalidParameter:      {"ND_INVALID_PARAMETER", "invalid parameter"},
	ErrInvalidDeviceRequest:  {"ND_INVALID_DEVICE_REQUEST", "the request is not possible here"},
	ErrNoMemory:              {"ND_NO_MEMORY", "out of memory"},
	ErrInvalidParameterMix:   {"ND_INVALID_PARAMETER_MIX", "arguments that make no sense together"},
	ErrDataOverrun:           {"ND_DATA_OVERRUN", "more scatter/gather entries than the queue pair takes"},
	ErrSharingViolation:      {"ND_SHARING_VIOLATION", "the address is in use"},
	ErrInsufficientResources: {"ND_INSUFFICIENT_RESOURCES", "insufficient resources"},
	ErrDeviceNotReady:        {"ND_DEVICE_NOT_READY", "not ready"},
	ErrIOTimeout:             {"ND_IO_TIMEOUT", "the peer did not answer in time"},
	ErrBadNetworkName:        {"STATUS_BAD_NETWORK_NAME", "not an address to connect to"},
	errInternal:              {"ND_INTERNAL_ERROR", "internal error"},
	ErrCanceled:              {"ND_CANCELED", "canceled"},
	ErrRemoteError:           {"ND_REMOTE_ERROR", "the peer could not take the message"},
	ErrInvalidAddress:        {"ND_INVALID_ADDRESS", "not an address of this adapter"},
	ErrInvalidDeviceState:    {"ND_INVALID_DEVICE_STATE", "the object is not in a state for this call"},
	ErrInvalidBufferSize:     {"ND_INVALID_BUFFER_SIZE", "invalid buffer size"},
	ErrTooManyAddresses:      {"ND_TOO_MANY_ADDRESSES", "no ephemeral port is free"},
	ErrAddressAlreadyExists:  {"ND_ADDRESS_ALREADY_EXISTS", "a connection with these addresses and ports exists"},
	ErrConnectionRefused:     {"ND_CONNECTION_REFUSED", "connection refused"},
	ErrAddressAssociated:     {"STATUS_ADDRESS_ALREADY_ASSOCIATED", "already bound"},
	ErrConnectionInvalid:     {"ND_CONNECTION_INVALID", "the connection is not in a state for this call"},
	ErrConnectionActive:      {"ND_CONNECTION_ACTIVE", "already connected or connecting"},
	ErrNetworkUnreachable:    {"ND_NETWORK_UNREACHABLE", "network unreachable"},
	ErrHostUnreachable:       {"ND_HOST_UNREACHABLE", "host unreachable"},
	ErrConnectionAborted:     {"ND_CONNECTION_ABORTED", "connection aborted"},
	ErrDeviceRemoved:         {"ND_DEVICE_REMOVED", "the adapter is closed, or its interface or address is gone"},
}

// Name returns the code's name in the public headers.
func (s Status) Name() string {
	if t, ok := statusText[s]; ok {
		return t[0]
	}
	if s >= ErrInvalidParameterN(1) && s <= ErrInvalidParameterN(10) {
		return fmt.Sprintf("ND_INVALID_PARAMETER_%d", s-ErrInvalidParameterN(1)+1)
	}
	return fmt.Sprintf("%#08x", uint32(s))
}

// Error implements error.
func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return t[1] + " (" + t[0] + ")"
	}
	return "invalid argument (" + s.Name() + ")"
}

// Failed reports whether the status is a failure.
func (s Status) Failed() bool { return int32(s) < 0 }

// Timeout reports whether the failure is a time-out. It implements net.Error.
func (s Status) Timeout() bool { return s == ErrIOTimeout }

// statusOf maps the engine's outcomes to ND2 codes (ND specification 2.4 and section 13).
var statusOf = map[provider.Outcome]Status{
	provider.OutcomeSuccess:               StatusSuccess,
	provider.OutcomeCanceled:              ErrCanceled,
	provider.OutcomeAccessViolation:       ErrAccessViolation,
	provider.OutcomeReadRefused:           ErrAccessViolation, // D19: expected by ND2 programs
	provider.OutcomeRemoteError:           ErrRemoteError,
	provider.OutcomeBufferOverflow:        ErrBufferOverflow,
	provider.OutcomeIOTimeout:             ErrIOTimeout,
	provider.OutcomeInvalidRequest:        ErrInvalidDeviceRequest,
	provider.OutcomeDataOverrun:           ErrDataOverrun,
	provider.OutcomeNoMoreEntries:         ErrNoMoreEntries,
	provider.OutcomeConnectionInvalid:     ErrConnectionInvalid,
	provider.OutcomeConnectionActive:      ErrConnectionActive,
	provider.OutcomeInvalidState:          ErrInvalidDeviceState,
	provider.OutcomeRefused:               ErrConnectionRefused,
	provider.OutcomeDeclined:              ErrConnectionRefused, // D7
	provider.OutcomeAborted:               ErrConnectionAborted,
	provider.OutcomeWithdrawn:             ErrConnectionAborted, // D6
	provider.OutcomeHostUnreachable:       ErrHostUnreachable,
	provider.OutcomeNetworkUnreachable:    ErrNetworkUnreachable,
	provider.OutcomePathTooSmall:          ErrNetworkUnreachable,
	provider.OutcomeAddressExists:         ErrAddressAlreadyExists,
	provider.OutcomeAddressAssociated:     ErrAddressAssociated,
	provider.OutcomeSharingViolation:      ErrSharingViolation,
	provider.OutcomeTooManyAddresses:      ErrTooManyAddresses,
	provider.OutcomeBadNetworkName:        ErrBadNetworkName,
	provider.OutcomeInvalidBufferSize:     ErrInvalidBufferSize,
	provider.OutcomeParameterMix:          ErrInvalidParameterMix,
	provider.OutcomeInsufficientResources: ErrInsufficientResources,
	provider.OutcomeDeviceBusy:            ErrDeviceBusy,
	provider.OutcomeDeviceRemoved:         ErrDeviceRemoved,

	verbs.OutcomeWrongArgument:  ErrInvalidParameter,
	verbs.OutcomeWrongFlags:     ErrInvalidParameterN(3), // of Register
	verbs.OutcomeEmpty:          ErrInvalidBufferSize,
	verbs.OutcomeWrongQueuePair: ErrInvalidParameterN(1), // of Connect and Accept
	verbs.OutcomeNoAddress:      ErrBadNetworkName,
	verbs.OutcomeWrongFamily:    ErrInvalidAddress,
	verbs.OutcomeWrongAddress:   ErrInvalidAddress,
	verbs.OutcomeOutside:        ErrAccessViolation,
	verbs.OutcomeNoMemory:       ErrNoMemory,
	verbs.OutcomeNotReady:       ErrDeviceNotReady,
}

// statusTable is statusOf as an array, because results are converted on the fast path.
var statusTable = verbs.Statuses(statusOf, errInternal)
