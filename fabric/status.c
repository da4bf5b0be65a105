/* status.c: statuses of NetworkDirect as errors of libfabric. */
#include <stdio.h>

#include "provider.h"

int status_errno(ndx_status status)
{
	switch (status) {
	case NDX_SUCCESS:
		return 0;
	case NDX_ERR_NO_MORE_ENTRIES:
	case NDX_ERR_DEVICE_BUSY:
		return -FI_EAGAIN;
	case NDX_ERR_BUFFER_OVERFLOW:
	case NDX_ERR_DATA_OVERRUN:
	case NDX_ERR_INVALID_BUFFER_SIZE:
		return -FI_EMSGSIZE;
	case NDX_ERR_ACCESS_VIOLATION:
		return -FI_EACCES;
	case NDX_ERR_NO_MEMORY:
	case NDX_ERR_INSUFFICIENT_RESOURCES:
		return -FI_ENOMEM;
	case NDX_ERR_SHARING_VIOLATION:
	case NDX_ERR_ADDRESS_ALREADY_EXISTS:
	case NDX_ERR_TOO_MANY_ADDRESSES:
		return -FI_EADDRINUSE;
	case NDX_ERR_INVALID_ADDRESS:
		return -FI_EADDRNOTAVAIL;
	case NDX_ERR_IO_TIMEOUT:
		return -FI_ETIMEDOUT;
	case NDX_ERR_NOT_SUPPORTED:
	case NDX_ERR_FORKED:
		return -FI_EOPNOTSUPP;
	case NDX_ERR_CANCELED:
		return -FI_ECANCELED;
	case NDX_ERR_REMOTE_ERROR:
		return -FI_EREMOTEIO;
	case NDX_ERR_INVALID_DEVICE_STATE:
	case NDX_ERR_CONNECTION_ACTIVE:
	case NDX_ERR_ADDRESS_ASSOCIATED:
		return -FI_EOPBADSTATE;
	case NDX_ERR_CONNECTION_REFUSED:
		return -FI_ECONNREFUSED;
	case NDX_ERR_CONNECTION_INVALID:
		return -FI_ENOTCONN;
	case NDX_ERR_CONNECTION_ABORTED:
		return -FI_ECONNABORTED;
	case NDX_ERR_NETWORK_UNREACHABLE:
	case NDX_ERR_BAD_NETWORK_NAME:
		return -FI_ENETUNREACH;
	case NDX_ERR_HOST_UNREACHABLE:
		return -FI_EHOSTUNREACH;
	case NDX_ERR_DEVICE_NOT_READY:
	case NDX_ERR_DEVICE_REMOVED:
		return -FI_ENODEV;
	case NDX_ERR_UNSUCCESSFUL:
	case NDX_ERR_INTERNAL:
		return -FI_EOTHER;
	}
	return -FI_EINVAL;
}

const char *status_string(int prov_errno, char *buf, size_t len)
{
	if (!lib.status_name) /* no error comes before the library is loaded */
		return "no status";
	if (buf && len)
		snprintf(buf, len, "%s: %s", lib.status_name((ndx_status) prov_errno), lib.status_text((ndx_status) prov_errno));
	return buf && len ? buf : lib.status_text((ndx_status) prov_errno);
}
