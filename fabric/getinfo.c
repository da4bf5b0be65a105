/* getinfo.c: fi_getinfo. It returns one fi_info for each local address that fits, loopback addresses last. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "provider.h"

/* What the application asks of addresses. */
struct query {
	int family; /* AF_UNSPEC: any */
	const char *domain;
	uint16_t port; /* of the source, in network order */
	bool has_source, has_peer;
	struct sockaddr_storage source, peer;
};

static int from_node(const char *node, const char *service, uint64_t flags, struct query *q)
{
	struct addrinfo ask = {.ai_family = q->family, .ai_socktype = SOCK_DGRAM}, *found;
	struct sockaddr_storage *to = &q->peer;

	if (flags & FI_SOURCE)
		ask.ai_flags |= AI_PASSIVE;
	if (flags & FI_NUMERICHOST)
		ask.ai_flags |= AI_NUMERICHOST;
	if (getaddrinfo(node, service, &ask, &found))
		return -FI_ENODATA;
	if (flags & FI_SOURCE) {
		q->port = address_port(found->ai_addr);
		q->has_source = node != NULL;
		to = &q->source;
	} else {
		q->has_peer = true;
	}
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int from_hints(const struct fi_info *hints, struct query *q)
{
	if (hints->addr_format == FI_SOCKADDR_IN || hints->addr_format == FI_SOCKADDR_IN6)
		q->family = hints->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6;
	if (hints->domain_attr)
		q->domain = hints->domain_attr->name;
	if (hints->src_addr) {
		if (!address_valid(hints->src_addr, hints->src_addrlen))
			return -FI_ENODATA;
		memcpy(&q->source, hints->src_addr, address_size(hints->src_addr));
		q->port = address_port(hints->src_addr);
		q->has_source = true;
	}
	if (hints->dest_addr) {
		if (!address_valid(hints->dest_addr, hints->dest_addrlen))
			return -FI_ENODATA;
		memcpy(&q->peer, hints->dest_addr, address_size(hints->dest_addr));
		q->has_peer = true;
	}
	return 0;
}

static int ask(const char *node, const char *service, uint64_t flags, const struct fi_info *hints, struct query *q)
{
	int ret = hints ? from_hints(hints, q) : 0;

	if (!ret && (node || service))
		ret = from_node(node, service, flags, q);
	if (ret)
		return ret;
	if (q->has_source && address_any((struct sockaddr *) &q->source)) {
		q->family = q->source.ss_family;
		q->has_source = false;
	}
	if (!q->has_peer)
		return 0;
	q->family = q->peer.ss_family;
	/* A peer is reached from one address, unless the application named another one. */
	if (!q->has_source && !q->domain && !param_iface) {
		q->has_source = true;
		return address_toward((struct sockaddr *) &q->peer, &q->source);
	}
	return 0;
}

/* fits reports whether an address of an interface answers the query. IPv6 addresses of one link are left out: a connection cannot name the
 * link. */
static bool fits(const struct query *q, const struct ifaddrs *i)
{
	const struct sockaddr *address = i->ifa_addr;
	char text[INET6_ADDRSTRLEN];

	if (!address || !(i->ifa_flags & IFF_UP) || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
		return false;
	if (q->family != AF_UNSPEC && q->family != address->sa_family)
		return false;
	if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *) address)->sin6_addr))
		return false;
	if (q->has_source && !address_equal(address, (const struct sockaddr *) &q->source))
		return false;
	address_text(address, text, sizeof(text));
	if (q->domain && strcmp(q->domain, text))
		return false;
	return !param_iface || !strcmp(param_iface, i->ifa_name) || !strcmp(param_iface, text);
}

static void *copy(const void *from, size_t len)
{
	void *to = malloc(len);

	return to ? memcpy(to, from, len) : NULL;
}

static void describe(struct fi_info *info)
{
	info->tx_attr->inject_size = MAX_INJECT;
	info->tx_attr->size = info->rx_attr->size = DEFAULT_QUEUE;
	info->tx_attr->iov_limit = info->rx_attr->iov_limit = MAX_IOV;
	info->tx_attr->rma_iov_limit = MAX_RMA_IOV;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = FI_PROTO_NETWORKDIRECT;
	info->ep_attr->protocol_version = 1;
	info->ep_attr->max_msg_size = MAX_MESSAGE;
	info->ep_attr->max_order_raw_size = info->ep_attr->max_order_waw_size = MAX_MESSAGE;
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = info->domain_attr->data_progress = FI_PROGRESS_AUTO;
	info->domain_attr->resource_mgmt = FI_RM_ENABLED;
	info->domain_attr->mr_key_size = KEY_SIZE;
	info->domain_attr->cq_cnt = info->domain_attr->ep_cnt = MAX_REGIONS;
	info->domain_attr->tx_ctx_cnt = info->domain_attr->rx_ctx_cnt = MAX_REGIONS;
	info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
	info->domain_attr->max_ep_srx_ctx = 1;
	info->domain_attr->cntr_cnt = MAX_COUNTERS;
	info->domain_attr->mr_iov_limit = 1;
	info->domain_attr->mr_cnt = MAX_REGIONS;
	info->domain_attr->caps = DOMAIN_CAPS;
	info->fabric_attr->prov_version = provider.version;
}

static struct fi_info *make(uint32_t version, const struct fi_info *hints, const struct query *q, const struct sockaddr *source)
{
	struct fi_info *info = info_dup(NULL);
	char text[INET6_ADDRSTRLEN];

	if (!info)
		return NULL;
	describe(info);
	hints_apply(version, hints, info);
	info->addr_format = source->sa_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
	info->src_addrlen = address_size(source);
	info->src_addr = copy(source, info->src_addrlen);
	if (q->has_peer) {
		info->dest_addrlen = address_size((const struct sockaddr *) &q->peer);
		info->dest_addr = copy(&q->peer, info->dest_addrlen);
	}
	address_text(source, text, sizeof(text));
	info->domain_attr->name = strdup(text);
	info->fabric_attr->name = strdup(provider.name);
	if (!info->src_addr || (q->has_peer && !info->dest_addr) || !info->domain_attr->name || !info->fabric_attr->name) {
		info_free(info);
		return NULL;
	}
	address_set_port(info->src_addr, q->port);
	info->handle = hints ? hints->handle : NULL;
	return info;
}

/* list_addresses lists the addresses that answer the query and are alternatives for each other: addresses of one family, and a loopback
 * address only if there is no other. Open MPI spreads ranks over all of them, and expects that each reaches each. */
static int list_addresses(uint32_t version, const struct fi_info *hints, struct query *q, struct fi_info **list)
{
	struct ifaddrs *all, *i;
	int ret = -FI_ENODATA;

	if (getifaddrs(&all))
		return -FI_ENODATA;
	for (int loopback = 0; loopback < 2 && ret == -FI_ENODATA; loopback++) {
		for (i = all; i && ret != -FI_ENOMEM; i = i->ifa_next) {
			if (!fits(q, i) || !(i->ifa_flags & IFF_LOOPBACK) != !loopback)
				continue;
			*list = make(version, hints, q, i->ifa_addr);
			ret = *list ? 0 : -FI_ENOMEM;
			q->family = i->ifa_addr->sa_family;
			if (*list)
				list = &(*list)->next;
		}
	}
	freeifaddrs(all);
	return ret;
}

int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints, struct fi_info **list)
{
	const char *wrong = hints_check(version, hints);
	struct query q = {.family = AF_UNSPEC};
	int ret;

	*list = NULL;
	if (wrong) {
		INFO(CORE, "the hints ask for more than is offered: %s\n", wrong);
		return -FI_ENODATA;
	}
	if (hints && hints->fabric_attr && hints->fabric_attr->name && strcmp(hints->fabric_attr->name, provider.name))
		return -FI_ENODATA;
	ret = ask(node, service, flags, hints, &q);
	if (!ret)
		ret = list_addresses(version, hints, &q, list);
	if (ret) {
		info_free(*list);
		*list = NULL;
	}
	return ret;
}
