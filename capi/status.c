// Names and descriptions of statuses. They are here, and not in Go, so that they work in a forked child.
#include "ndxdp.h"

static const struct {
	ndx_status status;
	const char *name, *text;
} statuses[] = {
	{NDX_SUCCESS, "ND_SUCCESS", "success"},
	{NDX_ERR_BUFFER_OVERFLOW, "ND_BUFFER_OVERFLOW", "more data than the buffer, queue or limit holds"},
	{NDX_ERR_DEVICE_BUSY, "ND_DEVICE_BUSY", "still in use"},
	{NDX_ERR_NO_MORE_ENTRIES, "ND_NO_MORE_ENTRIES", "the work queue is full: fetch results first"},
	{NDX_ERR_UNSUCCESSFUL, "ND_UNSUCCESSFUL", "unsuccessful"},
	{NDX_ERR_ACCESS_VIOLATION, "ND_ACCESS_VIOLATION", "memory access refused: token, range or right"},
	{NDX_ERR_INVALID_HANDLE, "ND_INVALID_HANDLE", "the handle is closed, or of an object of another kind"},
	{NDX_ERR_INVALID_PARAMETER, "ND_INVALID_PARAMETER", "invalid parameter"},
	{NDX_ERR_INVALID_DEVICE_REQUEST, "ND_INVALID_DEVICE_REQUEST", "the request is not possible here"},
	{NDX_ERR_NO_MEMORY, "ND_NO_MEMORY", "out of memory"},
	{NDX_ERR_INVALID_PARAMETER_MIX, "ND_INVALID_PARAMETER_MIX", "arguments that make no sense together"},
	{NDX_ERR_DATA_OVERRUN, "ND_DATA_OVERRUN", "more scatter/gather entries than the queue pair takes"},
	{NDX_ERR_SHARING_VIOLATION, "ND_SHARING_VIOLATION", "the address is in use"},
	{NDX_ERR_INSUFFICIENT_RESOURCES, "ND_INSUFFICIENT_RESOURCES", "insufficient resources"},
	{NDX_ERR_DEVICE_NOT_READY, "ND_DEVICE_NOT_READY", "not ready"},
	{NDX_ERR_IO_TIMEOUT, "ND_IO_TIMEOUT", "the peer did not answer in time"},
	{NDX_ERR_NOT_SUPPORTED, "ND_NOT_SUPPORTED", "not supported"},
	{NDX_ERR_BAD_NETWORK_NAME, "STATUS_BAD_NETWORK_NAME", "not an address to connect to"},
	{NDX_ERR_INTERNAL, "ND_INTERNAL_ERROR", "internal error"},
	{NDX_ERR_CANCELED, "ND_CANCELED", "canceled"},
	{NDX_ERR_REMOTE_ERROR, "ND_REMOTE_ERROR", "the peer could not take the message"},
	{NDX_ERR_INVALID_ADDRESS, "ND_INVALID_ADDRESS", "not an address of this adapter"},
	{NDX_ERR_INVALID_DEVICE_STATE, "ND_INVALID_DEVICE_STATE", "the object is not in a state for this call"},
	{NDX_ERR_INVALID_BUFFER_SIZE, "ND_INVALID_BUFFER_SIZE", "invalid buffer size"},
	{NDX_ERR_TOO_MANY_ADDRESSES, "ND_TOO_MANY_ADDRESSES", "no ephemeral port is free"},
	{NDX_ERR_ADDRESS_ALREADY_EXISTS, "ND_ADDRESS_ALREADY_EXISTS", "a connection with these addresses and ports exists"},
	{NDX_ERR_CONNECTION_REFUSED, "ND_CONNECTION_REFUSED", "connection refused"},
	{NDX_ERR_ADDRESS_ASSOCIATED, "STATUS_ADDRESS_ALREADY_ASSOCIATED", "already bound"},
	{NDX_ERR_CONNECTION_INVALID, "ND_CONNECTION_INVALID", "the connection is not in a state for this call"},
	{NDX_ERR_CONNECTION_ACTIVE, "ND_CONNECTION_ACTIVE", "already connected or connecting"},
	{NDX_ERR_NETWORK_UNREACHABLE, "ND_NETWORK_UNREACHABLE", "network unreachable"},
	{NDX_ERR_HOST_UNREACHABLE, "ND_HOST_UNREACHABLE", "host unreachable"},
	{NDX_ERR_CONNECTION_ABORTED, "ND_CONNECTION_ABORTED", "connection aborted"},
	{NDX_ERR_DEVICE_REMOVED, "ND_DEVICE_REMOVED", "the adapter is closed, or its interface or address is gone"},
	{NDX_ERR_FORKED, "NDX_FORKED", "the process was forked after the library was loaded: use the library in the parent, or after exec"},
};

enum { STATUSES = sizeof statuses / sizeof *statuses };

const char *ndx_status_name(ndx_status s) {
	for (int i = 0; i < STATUSES; i++)
		if (statuses[i].status == s)
			return statuses[i].name;
	return "ND_UNKNOWN";
}

const char *ndx_status_text(ndx_status s) {
	for (int i = 0; i < STATUSES; i++)
		if (statuses[i].status == s)
			return statuses[i].text;
	return "unknown status";
}
