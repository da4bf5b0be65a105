/* pep.c: passive endpoints, the listeners, and the connection requests that they report. */
#include <stdlib.h>
#include <string.h>

#include "none.h"

/* A request belongs to its listener until an endpoint is made for it, or it is rejected. */
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;

void connreq_claim(struct connreq *request)
{
	struct connreq **at;

	pthread_mutex_lock(&requests_lock);
	if (request->pep) {
		for (at = &request->pep->requests; *at != request; at = &(*at)->next)
			;
		*at = request->next;
		request->pep = NULL;
	}
	pthread_mutex_unlock(&requests_lock);
}

void connreq_end(struct connreq *request)
{
	connreq_claim(request);
	lib.connector_close(request->connector);
	free(request);
}

static struct connreq *connreq_new(struct pep *pep, ndx_connector connector)
{
	struct connreq *request = calloc(1, sizeof(*request));

	if (!request)
		return NULL;
	request->fid.fclass = FI_CLASS_CONNREQ;
	request->connector = connector;
	request->pep = pep;
	pthread_mutex_lock(&requests_lock);
	request->next = pep->requests;
	pep->requests = request;
	pthread_mutex_unlock(&requests_lock);
	return request;
}

struct eq_entry *pep_request(struct pep *pep, const struct ndx_event *event)
{
	struct eq_entry *entry = eq_entry_new(event->private_data, event->private_length);
	struct fi_info *info = info_dup(pep->info);
	struct connreq *request = connreq_new(pep, event->connector);

	if (!entry || !info || !request || !address_set(&info->dest_addr, &info->dest_addrlen, (struct sockaddr *) &event->peer)) {
		WARN(EQ, "no memory for a connection request: it is refused\n");
		if (request)
			connreq_end(request);
		else
			lib.connector_close(event->connector);
		info_free(info);
		free(entry);
		return NULL;
	}
	info->handle = &request->fid;
	entry->event = FI_CONNREQ;
	entry->fid = &pep->fid.fid;
	entry->context = pep->fid.fid.context;
	entry->info = info;
	return entry;
}

static int pep_close(struct fid *fid)
{
	struct pep *pep = container_of(fid, struct pep, fid.fid);

	if (pep->listener)
		lib.listener_close(pep->listener);
	if (pep->eq)
		eq_forget(pep->eq, fid);
	while (pep->requests)
		connreq_end(pep->requests);
	if (pep->adapter)
		adapter_put(pep->adapter);
	info_free(pep->info);
	atomic_fetch_sub(&pep->fabric->users, 1);
	free(pep);
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct pep *pep = container_of(fid, struct pep, fid.fid);
	struct eq *eq;
	int ret;

	if (other->fclass != FI_CLASS_EQ || pep->eq)
		return -FI_EINVAL;
	eq = container_of(other, struct eq, fid.fid);
	ret = eq_use(eq);
	if (!ret)
		pep->eq = eq;
	return ret;
}

static int pep_control(struct fid *fid, int command, void *arg)
{
	struct pep *pep = container_of(fid, struct pep, fid.fid);

	if (command != FI_BACKLOG)
		return -FI_ENOSYS;
	if (*(int *) arg < 0)
		return -FI_EINVAL;
	pep->backlog = (uint32_t) *(int *) arg;
	return 0;
}

static int pep_listen(struct fid_pep *fid)
{
	struct pep *pep = container_of(fid, struct pep, fid);
	struct sockaddr *address = (struct sockaddr *) &pep->address;
	ndx_status status;
	int ret;

	if (!pep->eq)
		return -FI_ENOEQ;
	if (pep->listener)
		return -FI_EOPBADSTATE;
	if (!pep->info->src_addr) /* fi_setname was not called either */
		return -FI_EINVAL;
	ret = pep->adapter ? 0 : adapter_get(address, &pep->adapter);
	if (ret)
		return ret;
	status = lib.listen(pep->adapter->handle, address, pep->backlog, pep->eq->events, (uintptr_t) &pep->fid.fid, &pep->listener);
	if (status)
		INFO(EP_CTRL, "cannot listen: %s\n", lib.last_error());
	else
		status = lib.listener_address(pep->listener, &pep->address);
	return status_errno(status);
}

static int pep_getname(fid_t fid, void *address, size_t *len)
{
	struct pep *pep = container_of(fid, struct pep, fid.fid);

	return pep->info->src_addr ? address_copy((struct sockaddr *) &pep->address, address, len) : -FI_EADDRNOTAVAIL;
}

static int pep_setname(fid_t fid, void *address, size_t len)
{
	struct pep *pep = container_of(fid, struct pep, fid.fid);

	if (pep->adapter)
		return -FI_EOPBADSTATE;
	if (!address_valid(address, len) || address_any(address))
		return -FI_EINVAL;
	memcpy(&pep->address, address, address_size(address));
	return address_set(&pep->info->src_addr, &pep->info->src_addrlen, address) ? 0 : -FI_ENOMEM;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t len)
{
	struct connreq *request = container_of(handle, struct connreq, fid);
	ndx_status status;

	if (!handle || handle->fclass != FI_CLASS_CONNREQ || len > NDX_MAX_PRIVATE_DATA)
		return -FI_EINVAL;
	status = lib.reject(request->connector, data, (uint32_t) len);
	connreq_end(request);
	return status_errno(status);
}

static struct fi_ops pep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
	.control = pep_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_cm pep_cm = {
	.size = sizeof(struct fi_ops_cm),
	.setname = pep_setname,
	.getname = pep_getname,
	.getpeer = none_cm_getpeer,
	.connect = none_cm_connect,
	.listen = pep_listen,
	.accept = none_cm_accept,
	.reject = pep_reject,
	.shutdown = none_cm_shutdown,
	.join = none_cm_join,
};

static struct fi_ops_ep pep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = none_ep_cancel,
	.getopt = ep_getopt,
	.setopt = none_ep_setopt,
	.tx_ctx = none_ep_tx_ctx,
	.rx_ctx = none_ep_rx_ctx,
	.rx_size_left = none_ep_rx_size_left,
	.tx_size_left = none_ep_tx_size_left,
};

int pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out, void *context)
{
	struct pep *pep;

	if (!info || (info->src_addr && (!address_valid(info->src_addr, info->src_addrlen) || address_any(info->src_addr))))
		return -FI_EINVAL;
	pep = calloc(1, sizeof(*pep));
	if (!pep)
		return -FI_ENOMEM;
	pep->info = info_dup(info);
	if (!pep->info) {
		free(pep);
		return -FI_ENOMEM;
	}
	if (info->src_addr)
		memcpy(&pep->address, info->src_addr, address_size(info->src_addr));
	pep->fabric = container_of(fid, struct fabric, fid);
	atomic_fetch_add(&pep->fabric->users, 1);
	pep->fid.fid.fclass = FI_CLASS_PEP;
	pep->fid.fid.context = context;
	pep->fid.fid.ops = &pep_fid_ops;
	pep->fid.ops = &pep_ops;
	pep->fid.cm = &pep_cm;
	*out = &pep->fid;
	return 0;
}
