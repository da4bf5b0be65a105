package ndk

import (
	"fmt"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Status is an NT status code as NDKPI functions return it. It implements error and works with errors.Is. A status is a failure if bit 31
// is set: statuses of the warning class (0x8…) are failures too, StatusPending is not.
type Status uint32

// The statuses of NDKPI that calls and results end with, with the numbers of the public headers.
const (
	StatusSuccess               Status = 0x00000000
	StatusPending               Status = 0x00000103
	StatusBufferOverflow        Status = 0x80000005
	StatusDeviceBusy            Status = 0x80000011
	StatusNoMoreEntries         Status = 0x8000001A
	StatusAccessViolation       Status = 0xC0000005
	StatusInvalidParameter      Status = 0xC000000D
	StatusInvalidDeviceRequest  Status = 0xC0000010
	StatusBufferTooSmall        Status = 0xC0000023
	StatusInvalidParameterMix   Status = 0xC0000030
	StatusDataOverrun           Status = 0xC000003C
	StatusSharingViolation      Status = 0xC0000043
	StatusInsufficientResources Status = 0xC000009A
	StatusIOTimeout             Status = 0xC00000B5
	StatusCancelled             Status = 0xC0000120
	StatusRemoteResources       Status = 0xC000013D
	StatusInvalidAddress        Status = 0xC0000141
	StatusInvalidDeviceState    Status = 0xC0000184
	StatusInvalidBufferSize     Status = 0xC0000206
	StatusTooManyAddresses      Status = 0xC0000209
	StatusAddressAlreadyExists  Status = 0xC000020A
	StatusConnectionRefused     Status = 0xC0000236
	StatusConnectionInvalid     Status = 0xC000023A
	StatusConnectionActive      Status = 0xC000023B
	StatusNetworkUnreachable    Status = 0xC000023C
	StatusHostUnreachable       Status = 0xC000023D
	StatusConnectionAborted     Status = 0xC0000241
	StatusDeviceRemoved         Status = 0xC00002B6
	StatusImplementationLimit   Status = 0xC000042B

	// Statuses of opening an adapter come from NDIS.
	StatusBadVersion      Status = 0xC0010004
	StatusAdapterNotReady Status = 0xC0010011
)

// statusInternal is the status of an outcome that statusOf lacks. A test holds that it lacks none.
const statusInternal Status = 0xC00000E5

var statusText = map[Status][2]string{
	StatusSuccess:               {"STATUS_SUCCESS", "success"},
	StatusPending:               {"STATUS_PENDING", "the callback will tell"},
	StatusBufferOverflow:        {"STATUS_BUFFER_OVERFLOW", "more data than the buffer, queue or limit holds"},
	StatusDeviceBusy:            {"STATUS_DEVICE_BUSY", "still in use"},
	StatusNoMoreEntries:         {"STATUS_NO_MORE_ENTRIES", "the work queue is full: fetch results first"},
	StatusAccessViolation:       {"STATUS_ACCESS_VIOLATION", "memory access refused: token, range or right"},
	StatusInvalidParameter:      {"STATUS_INVALID_PARAMETER", "invalid parameter"},
	StatusInvalidDeviceRequest:  {"STATUS_INVALID_DEVICE_REQUEST", "the request is not possible here"},
	StatusBufferTooSmall:        {"STATUS_BUFFER_TOO_SMALL", "the buffer is too small"},
	StatusInvalidParameterMix:   {"STATUS_INVALID_PARAMETER_MIX", "arguments that make no sense together"},
	StatusDataOverrun:           {"STATUS_DATA_OVERRUN", "more scatter/gather entries than the queue takes"},
	StatusSharingViolation:      {"STATUS_SHARING_VIOLATION", "the address is in use"},
	StatusInsufficientResources: {"STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"},
	StatusIOTimeout:             {"STATUS_IO_TIMEOUT", "the peer did not answer in time"},
	statusInternal:              {"STATUS_INTERNAL_ERROR", "internal error"},
	StatusCancelled:             {"STATUS_CANCELLED", "cancelled"},
	StatusRemoteResources:       {"STATUS_REMOTE_RESOURCES", "the peer could not take or give the data"},
	StatusInvalidAddress:        {"STATUS_INVALID_ADDRESS", "not an address of this adapter"},
	StatusInvalidDeviceState:    {"STATUS_INVALID_DEVICE_STATE", "the object is not in a state for this call"},
	StatusInvalidBufferSize:     {"STATUS_INVALID_BUFFER_SIZE", "invalid buffer size"},
	StatusTooManyAddresses:      {"STATUS_TOO_MANY_ADDRESSES", "no ephemeral port is free"},
	StatusAddressAlreadyExists:  {"STATUS_ADDRESS_ALREADY_EXISTS", "a connection with these addresses and ports exists"},
	StatusConnectionRefused:     {"STATUS_CONNECTION_REFUSED", "connection refused"},
	StatusConnectionInvalid:     {"STATUS_CONNECTION_INVALID", "the connection is not in a state for this call"},
	StatusConnectionActive:      {"STATUS_CONNECTION_ACTIVE", "already connected or connecting"},
	StatusNetworkUnreachable:    {"STATUS_NETWORK_UNREACHABLE", "network unreachable"},
	StatusHostUnreachable:       {"STATUS_HOST_UNREACHABLE", "host unreachable"},
	StatusConnectionAborted:     {"STATUS_CONNECTION_ABORTED", "connection aborted"},
	StatusDeviceRemoved:         {"STATUS_DEVICE_REMOVED", "the adapter is closed or its interface is gone"},
	StatusImplementationLimit:   {"STATUS_IMPLEMENTATION_LIMIT", "beyond what the provider can do"},
	StatusBadVersion:            {"NDIS_STATUS_BAD_VERSION", "this version of NDKPI is not offered"},
	StatusAdapterNotReady:       {"NDIS_STATUS_ADAPTER_NOT_READY", "the adapter cannot be opened"},
}

// Name returns the code's name in the public headers.
func (s Status) Name() string {
	if t, ok := statusText[s]; ok {
		return t[0]
	}
	return fmt.Sprintf("%#08x", uint32(s))
}

// Error implements error.
func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return t[1] + " (" + t[0] + ")"
	}
	return "unknown status " + s.Name()
}

// Failed reports whether the status is a failure.
func (s Status) Failed() bool { return int32(s) < 0 }

// Err returns the status as an error, or nil unless it is a failure.
func (s Status) Err() error {
	if s.Failed() {
		return s
	}
	return nil
}

// Timeout reports whether the failure is a time-out. It implements net.Error.
func (s Status) Timeout() bool { return s == StatusIOTimeout }

// statusOf maps the engine's outcomes to NT codes (ND specification 2.4 and section 13).
var statusOf = map[provider.Outcome]Status{
	provider.OutcomeSuccess:               StatusSuccess,
	provider.OutcomeCanceled:              StatusCancelled,
	provider.OutcomeAccessViolation:       StatusAccessViolation,
	provider.OutcomeReadRefused:           StatusRemoteResources, // D19
	provider.OutcomeRemoteError:           StatusRemoteResources,
	provider.OutcomeBufferOverflow:        StatusBufferOverflow,
	provider.OutcomeIOTimeout:             StatusIOTimeout,
	provider.OutcomeInvalidRequest:        StatusInvalidDeviceRequest,
	provider.OutcomeDataOverrun:           StatusDataOverrun,
	provider.OutcomeNoMoreEntries:         StatusNoMoreEntries,
	provider.OutcomeConnectionInvalid:     StatusConnectionInvalid,
	provider.OutcomeConnectionActive:      StatusConnectionActive,
	provider.OutcomeInvalidState:          StatusInvalidDeviceState,
	provider.OutcomeRefused:               StatusConnectionRefused,
	provider.OutcomeDeclined:              StatusConnectionAborted, // D7
	provider.OutcomeAborted:               StatusConnectionAborted,
	provider.OutcomeWithdrawn:             StatusConnectionAborted,
	provider.OutcomeHostUnreachable:       StatusHostUnreachable,
	provider.OutcomeNetworkUnreachable:    StatusNetworkUnreachable,
	provider.OutcomePathTooSmall:          StatusNetworkUnreachable,
	provider.OutcomeAddressExists:         StatusAddressAlreadyExists,
	provider.OutcomeAddressAssociated:     StatusInvalidDeviceState, // NDKPI has no second Bind
	provider.OutcomeSharingViolation:      StatusSharingViolation,
	provider.OutcomeTooManyAddresses:      StatusTooManyAddresses,
	provider.OutcomeBadNetworkName:        StatusNetworkUnreachable,
	provider.OutcomeInvalidBufferSize:     StatusInvalidBufferSize,
	provider.OutcomeParameterMix:          StatusInvalidParameterMix,
	provider.OutcomeInsufficientResources: StatusInsufficientResources,
	provider.OutcomeDeviceBusy:            StatusDeviceBusy,
	provider.OutcomeDeviceRemoved:         StatusDeviceRemoved,

	verbs.OutcomeWrongArgument:  StatusInvalidParameter,
	verbs.OutcomeWrongFlags:     StatusInvalidParameter,
	verbs.OutcomeEmpty:          StatusInvalidParameter,
	verbs.OutcomeWrongQueuePair: StatusInvalidParameter,
	verbs.OutcomeNoAddress:      StatusInvalidParameter,
	verbs.OutcomeWrongFamily:    StatusInvalidParameter,
	verbs.OutcomeWrongAddress:   StatusInvalidAddress,
	verbs.OutcomeOutside:        StatusInvalidParameter,
	verbs.OutcomeNoMemory:       StatusInsufficientResources,
	verbs.OutcomeNotReady:       StatusAdapterNotReady,
}

// statusTable is statusOf as an array, because results are converted on the fast path.
var statusTable = verbs.Statuses(statusOf, statusInternal)
