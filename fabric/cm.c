/* cm.c: the connection of an endpoint. */
#include <stdlib.h>

#include "none.h"

static int ep_getname(fid_t fid, void *address, size_t *len)
{
	struct ep *ep = container_of(fid, struct ep, fid.fid);
	struct sockaddr_storage local;

	if (ep->connector && !lib.connector_local(ep->connector, &local))
		return address_copy((struct sockaddr *) &local, address, len);
	return address_copy(ep->info->src_addr ? ep->info->src_addr : (struct sockaddr *) &ep->domain->adapter->address, address, len);
}

static int ep_getpeer(struct fid_ep *fid, void *address, size_t *len)
{
	struct ep *ep = container_of(fid, struct ep, fid);
	struct sockaddr_storage peer;

	if (!ep->connector || lib.connector_peer(ep->connector, &peer))
		return -FI_ENOTCONN;
	return address_copy((struct sockaddr *) &peer, address, len);
}

static int set_params(struct ep *ep, const void *data, size_t len, struct ndx_connect_params *params)
{
	uint32_t reads = ep->domain->adapter->limits.max_read_limit;

	if (len > NDX_MAX_PRIVATE_DATA)
		return -FI_EINVAL;
	*params = (struct ndx_connect_params){
		.size = sizeof(*params),
		.inbound_reads = reads,
		.outbound_reads = reads,
		.private_length = (uint32_t) len,
		.private_data = data,
	};
	return 0;
}

static ndx_status bind_source(struct ep *ep)
{
	const struct sockaddr *source = ep->info->src_addr;

	return source && address_port(source) ? lib.connector_bind(ep->connector, source) : NDX_SUCCESS;
}

static int ep_connect(struct fid_ep *fid, const void *address, const void *data, size_t len)
{
	struct ep *ep = container_of(fid, struct ep, fid);
	struct ndx_connect_params params;
	ndx_status status;
	int ret = ep->connector ? -FI_EOPBADSTATE : ep_enable(ep);

	if (!address)
		address = ep->info->dest_addr;
	if (!ret && !address)
		ret = -FI_EINVAL;
	if (!ret)
		ret = set_params(ep, data, len, &params);
	if (ret)
		return ret;
	status = lib.connector_create(ep->domain->adapter->handle, ep->eq->events, (uintptr_t) &ep->fid.fid, &ep->connector);
	if (!status)
		status = bind_source(ep);
	if (!status)
		status = lib.connect(ep->connector, ep->qp, address, &params);
	if (status) {
		INFO(EP_CTRL, "cannot connect: %s\n", lib.last_error());
		lib.connector_close(ep->connector);
		ep->connector = 0;
	}
	return status_errno(status);
}

static int ep_accept(struct fid_ep *fid, const void *data, size_t len)
{
	struct ep *ep = container_of(fid, struct ep, fid);
	struct ndx_connect_params params;
	struct connreq *request;
	ndx_status status;
	int ret;

	if (!ep->info->handle)
		return -FI_EINVAL;
	if (ep->connector)
		return -FI_EOPBADSTATE;
	ret = ep_enable(ep);
	if (!ret)
		ret = set_params(ep, data, len, &params);
	if (ret)
		return ret;
	request = container_of(ep->info->handle, struct connreq, fid);
	ep->info->handle = NULL;
	ep->connector = request->connector;
	free(request);
	status = lib.connector_events(ep->connector, ep->eq->events, (uintptr_t) &ep->fid.fid);
	if (!status)
		status = lib.accept(ep->connector, ep->qp, &params);
	if (status)
		INFO(EP_CTRL, "cannot accept: %s\n", lib.last_error());
	return status_errno(status);
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct ep *ep = container_of(fid, struct ep, fid);

	return ep->connector ? status_errno(lib.disconnect(ep->connector)) : -FI_ENOTCONN;
}

struct fi_ops_cm ep_cm = {
	.size = sizeof(struct fi_ops_cm),
	.setname = none_cm_setname,
	.getname = ep_getname,
	.getpeer = ep_getpeer,
	.connect = ep_connect,
	.listen = none_cm_listen,
	.accept = ep_accept,
	.reject = none_cm_reject,
	.shutdown = ep_shutdown,
	.join = none_cm_join,
};

/* shut_down: both sides learn once that a connection is over, whoever ended it. */
static bool shut_down(struct ep *ep)
{
	bool first = !ep->down;

	ep->down = true;
	return first;
}

static struct eq_entry *ep_event(struct ep *ep, const struct ndx_event *event)
{
	struct eq_entry *entry;

	if ((event->type == NDX_EVENT_SHUTDOWN || event->type == NDX_EVENT_DISCONNECTED) && !shut_down(ep))
		return NULL;
	entry = eq_entry_new(event->private_data, event->private_length);
	if (!entry) {
		WARN(EQ, "no memory for an event: it is lost\n");
		return NULL;
	}
	entry->fid = &ep->fid.fid;
	entry->context = ep->fid.fid.context;
	switch (event->type) {
	case NDX_EVENT_CONNECTED:
		entry->event = FI_CONNECTED;
		break;
	case NDX_EVENT_FAILED:
		INFO(EP_CTRL, "the connection failed: %s\n", event->text);
		entry->err = -status_errno(event->status);
		entry->status = event->status;
		break;
	default:
		INFO(EP_CTRL, "the connection is over: %s\n", event->text);
		entry->event = FI_SHUTDOWN;
	}
	return entry;
}

struct eq_entry *cm_event(const struct ndx_event *event)
{
	struct fid *fid = (struct fid *) (uintptr_t) event->cookie;

	if (fid->fclass == FI_CLASS_PEP)
		return event->type == NDX_EVENT_REQUEST ? pep_request(container_of(fid, struct pep, fid.fid), event) : NULL;
	return ep_event(container_of(fid, struct ep, fid.fid), event);
}
