/* srx.c: shared receive contexts. */
#include <stdlib.h>

#include "none.h"

static int srx_close(struct fid *fid)
{
	struct srx *srx = container_of(fid, struct srx, fid.fid);

	if (atomic_load(&srx->users))
		return -FI_EBUSY;
	lib.srq_close(srx->handle);
	atomic_fetch_sub(&srx->domain->users, 1);
	free(srx);
	return 0;
}

static struct fi_ops srx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static ssize_t srx_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source, void *context)
{
	struct srx *srx = container_of(fid, struct srx, fid);
	struct ndx_sge sgl[MAX_IOV];
	struct ndx_receive receive = {.context = (uintptr_t) context, .sgl = sgl};
	int n = sgl_set_receive(sgl, iov, desc, count);

	if (n < 0)
		return n;
	receive.nsge = (uint32_t) n;
	return status_errno(lib.shared_receive(srx->handle, &receive, 1, NULL));
}

static ssize_t srx_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, void *context)
{
	struct iovec iov = {buf, len};

	return srx_recvv(fid, &iov, &desc, 1, source, context);
}

static ssize_t srx_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return srx_recvv(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, msg->context);
}

static struct fi_ops_msg srx_msg = {
	.size = sizeof(struct fi_ops_msg),
	.recv = srx_recv,
	.recvv = srx_recvv,
	.recvmsg = srx_recvmsg,
	.send = none_msg_send,
	.sendv = none_msg_sendv,
	.sendmsg = none_msg_sendmsg,
	.inject = none_msg_inject,
	.senddata = none_msg_senddata,
	.injectdata = none_msg_injectdata,
};

int srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	uint32_t size = attr && attr->size ? (uint32_t) attr->size : DEFAULT_QUEUE;
	struct srx *srx;
	ndx_status status;

	if (attr && (attr->size > domain->adapter->limits.max_shared_depth || attr->iov_limit > MAX_IOV))
		return -FI_EINVAL;
	srx = calloc(1, sizeof(*srx));
	if (!srx)
		return -FI_ENOMEM;
	status = lib.srq_create(domain->adapter->handle, size, MAX_IOV, &srx->handle);
	if (status) {
		free(srx);
		return status_errno(status);
	}
	srx->domain = domain;
	srx->depth = size;
	atomic_fetch_add(&domain->users, 1);
	srx->fid.fid.fclass = FI_CLASS_SRX_CTX;
	srx->fid.fid.context = context;
	srx->fid.fid.ops = &srx_fid_ops;
	srx->fid.ops = &none_ep;
	srx->fid.cm = &none_cm;
	srx->fid.msg = &srx_msg;
	*out = &srx->fid;
	return 0;
}
