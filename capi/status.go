//go:build cgo

package main

// #include "ndxdp.h"
import "C"

import (
	"unsafe"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// status is an ndx_status.
type status = C.ndx_status

const (
	success          status = C.NDX_SUCCESS
	invalidHandle    status = C.NDX_ERR_INVALID_HANDLE
	invalidParameter status = C.NDX_ERR_INVALID_PARAMETER
	connectionLost   status = C.NDX_ERR_CONNECTION_ABORTED
	noResources      status = C.NDX_ERR_INSUFFICIENT_RESOURCES
)

// statusOf maps causes to statuses, as package nd does.
var statusOf = map[provider.Outcome]status{
	provider.OutcomeSuccess:               success,
	provider.OutcomeCanceled:              C.NDX_ERR_CANCELED,
	provider.OutcomeAccessViolation:       C.NDX_ERR_ACCESS_VIOLATION,
	provider.OutcomeReadRefused:           C.NDX_ERR_ACCESS_VIOLATION,
	provider.OutcomeRemoteError:           C.NDX_ERR_REMOTE_ERROR,
	provider.OutcomeBufferOverflow:        C.NDX_ERR_BUFFER_OVERFLOW,
	provider.OutcomeIOTimeout:             C.NDX_ERR_IO_TIMEOUT,
	provider.OutcomeInvalidRequest:        C.NDX_ERR_INVALID_DEVICE_REQUEST,
	provider.OutcomeDataOverrun:           C.NDX_ERR_DATA_OVERRUN,
	provider.OutcomeNoMoreEntries:         C.NDX_ERR_NO_MORE_ENTRIES,
	provider.OutcomeConnectionInvalid:     C.NDX_ERR_CONNECTION_INVALID,
	provider.OutcomeConnectionActive:      C.NDX_ERR_CONNECTION_ACTIVE,
	provider.OutcomeInvalidState:          C.NDX_ERR_INVALID_DEVICE_STATE,
	provider.OutcomeRefused:               C.NDX_ERR_CONNECTION_REFUSED,
	provider.OutcomeDeclined:              C.NDX_ERR_CONNECTION_REFUSED,
	provider.OutcomeAborted:               connectionLost,
	provider.OutcomeWithdrawn:             connectionLost,
	provider.OutcomeHostUnreachable:       C.NDX_ERR_HOST_UNREACHABLE,
	provider.OutcomeNetworkUnreachable:    C.NDX_ERR_NETWORK_UNREACHABLE,
	provider.OutcomePathTooSmall:          C.NDX_ERR_HOST_UNREACHABLE,
	provider.OutcomeAddressExists:         C.NDX_ERR_ADDRESS_ALREADY_EXISTS,
	provider.OutcomeAddressAssociated:     C.NDX_ERR_ADDRESS_ASSOCIATED,
	provider.OutcomeSharingViolation:      C.NDX_ERR_SHARING_VIOLATION,
	provider.OutcomeTooManyAddresses:      C.NDX_ERR_TOO_MANY_ADDRESSES,
	provider.OutcomeBadNetworkName:        C.NDX_ERR_BAD_NETWORK_NAME,
	provider.OutcomeInvalidBufferSize:     C.NDX_ERR_INVALID_BUFFER_SIZE,
	provider.OutcomeParameterMix:          C.NDX_ERR_INVALID_PARAMETER_MIX,
	provider.OutcomeInsufficientResources: noResources,
	provider.OutcomeDeviceBusy:            C.NDX_ERR_DEVICE_BUSY,
	provider.OutcomeDeviceRemoved:         C.NDX_ERR_DEVICE_REMOVED,
	verbs.OutcomeWrongArgument:            invalidParameter,
	verbs.OutcomeWrongFlags:               invalidParameter,
	verbs.OutcomeEmpty:                    C.NDX_ERR_INVALID_BUFFER_SIZE,
	verbs.OutcomeWrongQueuePair:           invalidParameter,
	verbs.OutcomeNoAddress:                C.NDX_ERR_BAD_NETWORK_NAME,
	verbs.OutcomeWrongFamily:              C.NDX_ERR_INVALID_ADDRESS,
	verbs.OutcomeWrongAddress:             C.NDX_ERR_INVALID_ADDRESS,
	verbs.OutcomeOutside:                  invalidParameter,
	verbs.OutcomeNoMemory:                 C.NDX_ERR_NO_MEMORY,
	verbs.OutcomeNotReady:                 C.NDX_ERR_DEVICE_NOT_READY,
}

var statuses = verbs.Statuses(statusOf, C.NDX_ERR_INTERNAL)

// causeLen is the size of the buffers for causes in surface.c, with a final 0.
const causeLen = 256

// explain writes the text of err to a buffer of causeLen bytes.
func explain(buf *C.char, err error) {
	if err != nil {
		putText(unsafe.Slice(buf, causeLen), err.Error())
	}
}

// putText copies text to a field, cut to fit, with a final 0.
func putText(to []C.char, text string) {
	n := min(len(to)-1, len(text))
	for i := range n {
		to[i] = C.char(text[i])
	}
	to[n] = 0
}
