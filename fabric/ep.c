/* ep.c: makes, binds, enables and closes endpoints. An endpoint is a queue pair with its connection. */
#include <stdlib.h>

#include "none.h"

static const uint64_t counter_flags[COUNTERS] = {
	[COUNT_SEND] = FI_SEND,
	[COUNT_RECV] = FI_RECV,
	[COUNT_READ] = FI_READ,
	[COUNT_WRITE] = FI_WRITE,
};

static void drain(struct ep *ep)
{
	/* Results name their endpoint: none may be left in the library when the endpoint is gone. */
	if (ep->tx_cq)
		cq_progress(ep->tx_cq);
	if (ep->rx_cq && ep->rx_cq != ep->tx_cq)
		cq_progress(ep->rx_cq);
}

static void release_cq(struct cq *cq, bool own, uint32_t results)
{
	if (!cq)
		return;
	cq_unfit(cq, results);
	if (own)
		cq_free(cq);
	else
		atomic_fetch_sub(&cq->users, 1);
}

static void release_counters(struct ep *ep)
{
	for (int i = 0; i < COUNTERS; i++) {
		if (!ep->counters[i])
			continue;
		cntr_unfeed(ep->counters[i], i == COUNT_RECV ? ep->rx_cq : ep->tx_cq);
		atomic_fetch_sub(&ep->counters[i]->users, 1);
	}
}

static int ep_close(struct fid *fid)
{
	struct ep *ep = container_of(fid, struct ep, fid.fid);

	if (ep->connector)
		lib.connector_close(ep->connector);
	if (ep->eq)
		eq_forget(ep->eq, fid);
	if (ep->qp) {
		lib.qp_close(ep->qp);
		drain(ep);
	}
	release_counters(ep);
	release_cq(ep->tx_cq, ep->own_tx_cq, ep->tx_results);
	release_cq(ep->rx_cq, ep->own_rx_cq, ep->rx_results);
	if (ep->srx)
		atomic_fetch_sub(&ep->srx->users, 1);
	track_close(ep);
	bounce_close(ep);
	if (ep->info->handle) /* a request that was not accepted */
		connreq_end(container_of(ep->info->handle, struct connreq, fid));
	info_free(ep->info);
	pthread_mutex_destroy(&ep->lock);
	pthread_mutex_destroy(&ep->bounce_lock);
	atomic_fetch_sub(&ep->domain->users, 1);
	free(ep);
	return 0;
}

static int bind_cq(struct ep *ep, struct cq *cq, uint64_t flags)
{
	if (cq->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!(flags & (FI_TRANSMIT | FI_RECV)) || (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)))
		return -FI_EBADFLAGS;
	if (((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->users, 1);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->users, 1);
	}
	return 0;
}

/* bind_counter refuses counters of what peers do: the library does not report Reads and Writes of peers (FI_RMA_EVENT). */
static int bind_counter(struct ep *ep, struct cntr *cntr, uint64_t flags)
{
	if (cntr->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!flags || (flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE)))
		return -FI_EBADFLAGS;
	for (int i = 0; i < COUNTERS; i++) {
		if (!(flags & counter_flags[i]))
			continue;
		if (ep->counters[i])
			return -FI_EINVAL;
		ep->counters[i] = cntr;
		atomic_fetch_add(&cntr->users, 1);
	}
	return 0;
}

static int bind_eq(struct ep *ep, struct eq *eq)
{
	int ret = ep->eq ? -FI_EINVAL : eq_use(eq);

	if (!ret)
		ep->eq = eq;
	return ret;
}

static int bind_srx(struct ep *ep, struct srx *srx)
{
	if (srx->domain != ep->domain)
		return -FI_EDOMAIN;
	if (ep->srx)
		return -FI_EINVAL;
	ep->srx = srx;
	atomic_fetch_add(&srx->users, 1);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct ep *ep = container_of(fid, struct ep, fid.fid);

	if (ep->qp)
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_EQ:
		return bind_eq(ep, container_of(other, struct eq, fid.fid));
	case FI_CLASS_CQ:
		return bind_cq(ep, container_of(other, struct cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_counter(ep, container_of(other, struct cntr, fid.fid), flags);
	case FI_CLASS_SRX_CTX:
		return bind_srx(ep, container_of(other, struct srx, fid.fid));
	}
	return -FI_EINVAL;
}

/* complete_queues gives a completion queue to a direction that the application does not watch, or watches with counters. */
static int complete_queues(struct ep *ep)
{
	struct fi_cq_attr attr = {.size = DEFAULT_QUEUE};
	bool sends = ep->info->caps & (FI_SEND | FI_READ | FI_WRITE), receives = ep->info->caps & FI_RECV;
	int ret = 0;

	if (!ep->tx_cq) {
		if (sends && !ep->counters[COUNT_SEND] && !ep->counters[COUNT_READ] && !ep->counters[COUNT_WRITE])
			return -FI_ENOCQ;
		ep->own_tx_cq = !(ret = cq_new(ep->domain, &attr, &ep->tx_cq, NULL));
	}
	if (!ret && !ep->rx_cq) {
		if (receives && !ep->counters[COUNT_RECV])
			return -FI_ENOCQ;
		ep->own_rx_cq = !(ret = cq_new(ep->domain, &attr, &ep->rx_cq, NULL));
	}
	return ret;
}

static int fit(struct cq *cq, uint32_t results, uint32_t *fitted)
{
	int ret = cq_fit(cq, results);

	if (!ret)
		*fitted = results;
	return ret;
}

static int fit_queues(struct ep *ep)
{
	struct cq *none = NULL;
	int ret = ep->tx_results ? 0 : fit(ep->tx_cq, (uint32_t) ep->info->tx_attr->size, &ep->tx_results);

	if (ret || ep->rx_results)
		return ret;
	if (!ep->srx)
		return fit(ep->rx_cq, (uint32_t) ep->info->rx_attr->size, &ep->rx_results);
	/* The first endpoint of a shared context makes room for all its receives. */
	return atomic_compare_exchange_strong(&ep->srx->fitted, &none, ep->rx_cq) ? cq_fit(ep->rx_cq, ep->srx->depth) : 0;
}

static int track_if_needed(struct ep *ep)
{
	bool needed = ep->rx_selective;
	int ret = 0;

	for (int i = 0; i < COUNTERS && !ret; i++) {
		if (!ep->counters[i])
			continue;
		needed = true;
		ret = cntr_feed(ep->counters[i], i == COUNT_RECV ? ep->rx_cq : ep->tx_cq);
	}
	if (ret || !needed)
		return ret;
	cq_track(ep->tx_cq);
	cq_track(ep->rx_cq);
	return track_open(ep);
}

int ep_enable(struct ep *ep)
{
	struct ndx_qp_config config = {.size = sizeof(config), .context = (uintptr_t) ep};
	int ret;

	if (ep->qp)
		return 0;
	if (!ep->eq)
		return -FI_ENOEQ;
	if (ep->info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT && !ep->srx)
		return -FI_ENORX;
	ret = complete_queues(ep);
	if (!ret)
		ret = fit_queues(ep);
	if (!ret)
		ret = track_if_needed(ep);
	if (ret)
		return ret;
	config.receive_cq = ep->rx_cq->handle;
	config.initiator_cq = ep->tx_cq->handle;
	config.srq = ep->srx ? ep->srx->handle : 0;
	config.receive_depth = (uint32_t) ep->info->rx_attr->size;
	config.initiator_depth = (uint32_t) ep->info->tx_attr->size;
	config.receive_sge = config.initiator_sge = MAX_IOV;
	config.inline_size = INLINE;
	return status_errno(lib.qp_create(ep->domain->adapter->handle, &config, &ep->qp));
}

static int op_flags(struct ep *ep, int command, uint64_t *arg)
{
	uint64_t *flags = *arg & FI_TRANSMIT ? &ep->tx_op_flags : &ep->rx_op_flags;

	if (!(*arg & FI_TRANSMIT) == !(*arg & FI_RECV))
		return -FI_EINVAL;
	if (command == FI_GETOPSFLAG)
		*arg = *flags;
	else
		*flags = *arg & ~(FI_TRANSMIT | FI_RECV);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct ep *ep = container_of(fid, struct ep, fid.fid);

	switch (command) {
	case FI_ENABLE:
		return ep_enable(ep);
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
		return op_flags(ep, command, arg);
	}
	return -FI_ENOSYS;
}

int ep_getopt(fid_t fid, int level, int option, void *value, size_t *len)
{
	if (level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t))
		return -FI_ETOOSMALL;
	*(size_t *) value = NDX_MAX_PRIVATE_DATA;
	*len = sizeof(size_t);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = none_ep_cancel,
	.getopt = ep_getopt,
	.setopt = none_ep_setopt,
	.tx_ctx = none_ep_tx_ctx,
	.rx_ctx = none_ep_rx_ctx,
	.rx_size_left = none_ep_rx_size_left,
	.tx_size_left = none_ep_tx_size_left,
};

static bool info_fits(const struct fi_info *info)
{
	return info && info->ep_attr && info->domain_attr && info->tx_attr && info->rx_attr && info->ep_attr->type == FI_EP_MSG &&
	       info->tx_attr->size <= MAX_QUEUE && info->tx_attr->inject_size <= MAX_INJECT && info->rx_attr->size <= MAX_QUEUE &&
	       (!info->handle || info->handle->fclass == FI_CLASS_CONNREQ || info->handle->fclass == FI_CLASS_PEP);
}

static void set_ops(struct ep *ep, void *context)
{
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_fid_ops;
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &ep_cm;
	ep->fid.msg = &ep_msg;
	ep->fid.rma = &ep_rma;
}

/* take_address gives the address of a passive endpoint to the endpoint that is made from it. */
static bool take_address(struct fi_info *info)
{
	struct pep *pep;

	if (!info->handle || info->handle->fclass != FI_CLASS_PEP)
		return true;
	pep = container_of(info->handle, struct pep, fid.fid);
	info->handle = NULL;
	return !pep->info->src_addr || address_set(&info->src_addr, &info->src_addrlen, (struct sockaddr *) &pep->address);
}

int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct ep *ep;

	if (!info_fits(info))
		return -FI_EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->info = info_dup(info);
	if (!ep->info || !take_address(ep->info)) {
		info_free(ep->info);
		free(ep);
		return -FI_ENOMEM;
	}
	if (!ep->info->tx_attr->size)
		ep->info->tx_attr->size = DEFAULT_QUEUE;
	if (!ep->info->rx_attr->size)
		ep->info->rx_attr->size = DEFAULT_QUEUE;
	ep->tx_op_flags = ep->info->tx_attr->op_flags;
	ep->rx_op_flags = ep->info->rx_attr->op_flags;
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->bounce_lock, NULL);
	ep->domain = container_of(fid, struct domain, fid);
	atomic_fetch_add(&ep->domain->users, 1);
	if (ep->info->handle)
		connreq_claim(container_of(ep->info->handle, struct connreq, fid));
	set_ops(ep, context);
	*out = &ep->fid;
	return 0;
}
