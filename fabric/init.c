/* init.c: the entry point that libfabric calls, the parameters, and the functions of libfabric whose version matters. */
#include <dlfcn.h>
#include <stdlib.h>

#include "provider.h"

char *param_iface, *param_datapath, *param_broker;

/* A program that ends does not wait for connections to end: the sockets of adapters end with the process. */
static void cleanup(void)
{
}

struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.name = "ndxdp",
	.getinfo = getinfo,
	.fabric = fabric_open,
	.cleanup = cleanup,
};

struct fi_info *info_dup(const struct fi_info *info)
{
	struct fi_info *(*dup)(const struct fi_info *) = (struct fi_info * (*)(const struct fi_info *)) dlsym(RTLD_DEFAULT, "fi_dupinfo");

	return dup ? dup(info) : NULL;
}

void info_free(struct fi_info *info)
{
	void (*release)(struct fi_info *) = (void (*)(struct fi_info *)) dlsym(RTLD_DEFAULT, "fi_freeinfo");

	if (info && release)
		release(info);
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	/* libfabric passes over a provider that is older than the version that the application asks for. The provider uses only what
	 * release 1.17 has, which all later releases have. */
	provider.fi_version = fi_version();
	fi_param_define(&provider, "iface", FI_PARAM_STRING, "name or address of the only interface to use");
	fi_param_define(&provider, "datapath", FI_PARAM_STRING, "auto, native, generic, tcx, ring or udp (default: auto)");
	fi_param_define(&provider, "broker", FI_PARAM_STRING, "path of the socket of an ndbroker that opens AF_XDP");
	fi_param_get_str(&provider, "iface", &param_iface);
	fi_param_get_str(&provider, "datapath", &param_datapath);
	fi_param_get_str(&provider, "broker", &param_broker);
	return &provider;
}
