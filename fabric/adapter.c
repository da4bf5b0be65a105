/* adapter.c: one open adapter for each address that the process uses. */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

static pthread_mutex_t adapters_lock = PTHREAD_MUTEX_INITIALIZER;
static struct adapter *adapters;

static struct adapter *find(const struct sockaddr *address)
{
	struct adapter *a = adapters;

	while (a && !address_equal((struct sockaddr *) &a->address, address))
		a = a->next;
	return a;
}

/* open_handle opens the adapter of an address. On loopback addresses "auto" uses sockets alone, because a ring slows down the loopback traffic of
 * all programs a little. Ranks of a parallel program poll all the time, and a ring saves the system call of each poll. */
static ndx_status open_handle(const struct sockaddr *address, ndx_adapter *handle)
{
	struct ndx_adapter_config config = {.size = sizeof(config), .datapath = param_datapath, .broker = param_broker};

	if (!param_datapath && !param_broker && address_loopback(address)) {
		config.datapath = "ring";
		if (!lib.adapter_open(address, &config, handle))
			return NDX_SUCCESS;
		INFO(DOMAIN, "no ring on loopback: %s\n", lib.last_error());
		config.datapath = NULL;
	}
	return lib.adapter_open(address, &config, handle);
}

static int open_adapter(const struct sockaddr *address, struct adapter **out)
{
	struct adapter *a = calloc(1, sizeof(*a));
	ndx_status status;

	if (!a)
		return -FI_ENOMEM;
	memcpy(&a->address, address, address_size(address));
	address_set_port((struct sockaddr *) &a->address, 0);
	status = open_handle((struct sockaddr *) &a->address, &a->handle);
	if (status) {
		WARN(DOMAIN, "cannot open the adapter: %s\n", lib.last_error());
		free(a);
		return status_errno(status);
	}
	a->limits.size = sizeof(a->limits);
	lib.adapter_query(a->handle, &a->limits);
	INFO(DOMAIN, "interface %s, datapath %s: %s\n", a->limits.interface_name, a->limits.datapath, a->limits.reason);
	a->next = adapters;
	adapters = *out = a;
	return 0;
}

int adapter_get(const struct sockaddr *address, struct adapter **out)
{
	int ret = library_load();

	if (ret)
		return ret;
	pthread_mutex_lock(&adapters_lock);
	*out = find(address);
	if (!*out)
		ret = open_adapter(address, out);
	if (!ret)
		(*out)->users++;
	pthread_mutex_unlock(&adapters_lock);
	return ret;
}

void adapter_put(struct adapter *adapter)
{
	struct adapter **at = &adapters;

	pthread_mutex_lock(&adapters_lock);
	if (--adapter->users == 0) {
		while (*at != adapter)
			at = &(*at)->next;
		*at = adapter->next;
		lib.adapter_close(adapter->handle);
		free(adapter);
	}
	pthread_mutex_unlock(&adapters_lock);
}
