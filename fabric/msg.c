/* msg.c: messages of an endpoint. */
#include <sys/uio.h>

#include "provider.h"

static struct ep *of(struct fid_ep *fid)
{
	return container_of(fid, struct ep, fid);
}

static ssize_t receive(struct ep *ep, const struct iovec *iov, void **desc, size_t count, void *context, uint64_t flags)
{
	struct ndx_sge sgl[MAX_IOV];
	struct ndx_receive r = {.context = (uintptr_t) context, .sgl = sgl};
	int n = sgl_set_receive(sgl, iov, desc, count);

	if (n < 0)
		return n;
	r.nsge = (uint32_t) n;
	if (ep->rx.size)
		return status_errno(track_receive(ep, &r, !ep->rx_selective || (flags & FI_COMPLETION) ? TRACK_ENTRY : 0));
	return status_errno(lib.receive(ep->qp, &r, 1, NULL));
}

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, void *context)
{
	struct iovec iov = {buf, len};

	return receive(of(fid), &iov, &desc, 1, context, of(fid)->rx_op_flags);
}

static ssize_t ep_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source, void *context)
{
	return receive(of(fid), iov, desc, count, context, of(fid)->rx_op_flags);
}

static ssize_t ep_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return receive(of(fid), msg->msg_iov, msg->desc, msg->iov_count, msg->context, flags);
}

static ssize_t ep_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, void *context)
{
	struct ndx_request r = {.type = NDX_SEND, .context = (uintptr_t) context};

	return ep_post(of(fid), &r, iov, desc, count, of(fid)->tx_op_flags);
}

static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	struct iovec iov = {(void *) (uintptr_t) buf, len};

	return ep_sendv(fid, &iov, &desc, 1, dest, context);
}

static ssize_t ep_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct ndx_request r = {.type = NDX_SEND, .context = (uintptr_t) msg->context, .immediate = (uint32_t) msg->data};

	return ep_post(of(fid), &r, msg->msg_iov, msg->desc, msg->iov_count, flags);
}

static ssize_t ep_senddata(
	struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest, void *context)
{
	struct ndx_request r = {.type = NDX_SEND, .context = (uintptr_t) context, .immediate = (uint32_t) data};
	struct iovec iov = {(void *) (uintptr_t) buf, len};

	return ep_post(of(fid), &r, &iov, &desc, 1, of(fid)->tx_op_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t ep_send_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct ndx_request r = {.type = NDX_SEND};

	return ep_inject(of(fid), &r, buf, len);
}

static ssize_t ep_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
	struct ndx_request r = {.type = NDX_SEND, .flags = NDX_IMMEDIATE, .immediate = (uint32_t) data};

	return ep_inject(of(fid), &r, buf, len);
}

struct fi_ops_msg ep_msg = {
	.size = sizeof(struct fi_ops_msg),
	.recv = ep_recv,
	.recvv = ep_recvv,
	.recvmsg = ep_recvmsg,
	.send = ep_send,
	.sendv = ep_sendv,
	.sendmsg = ep_sendmsg,
	.inject = ep_send_inject,
	.senddata = ep_senddata,
	.injectdata = ep_injectdata,
};
