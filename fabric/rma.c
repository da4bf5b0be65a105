/* rma.c: Reads and Writes of an endpoint. */
#include <sys/uio.h>

#include "provider.h"

static struct ep *of(struct fid_ep *fid)
{
	return container_of(fid, struct ep, fid);
}

static struct ndx_request request(uint32_t type, uint64_t address, uint64_t key, void *context)
{
	return (struct ndx_request){
		.type = type,
		.context = (uintptr_t) context,
		.peer_address = address,
		.peer_token = (uint32_t) key,
	};
}

/* post_msg posts a request with one remote entry, of the same number of bytes as the local ones. */
static ssize_t post_msg(struct ep *ep, uint32_t type, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct ndx_request r;
	size_t len = 0;

	if (msg->rma_iov_count != MAX_RMA_IOV || msg->iov_count > MAX_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < msg->iov_count; i++)
		len += msg->msg_iov[i].iov_len;
	if (msg->rma_iov->len != len)
		return -FI_EINVAL;
	r = request(type, msg->rma_iov->addr, msg->rma_iov->key, msg->context);
	r.immediate = (uint32_t) msg->data;
	return ep_post(ep, &r, msg->msg_iov, msg->desc, msg->iov_count, flags);
}

static ssize_t ep_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t source, uint64_t address, uint64_t key,
	void *context)
{
	struct ndx_request r = request(NDX_READ, address, key, context);

	return ep_post(of(fid), &r, iov, desc, count, of(fid)->tx_op_flags);
}

static ssize_t ep_read(
	struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source, uint64_t address, uint64_t key, void *context)
{
	struct iovec iov = {buf, len};

	return ep_readv(fid, &iov, &desc, 1, source, address, key, context);
}

static ssize_t ep_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return flags & FI_REMOTE_CQ_DATA ? -FI_EINVAL : post_msg(of(fid), NDX_READ, msg, flags);
}

static ssize_t ep_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, uint64_t address, uint64_t key,
	void *context)
{
	struct ndx_request r = request(NDX_WRITE, address, key, context);

	return ep_post(of(fid), &r, iov, desc, count, of(fid)->tx_op_flags);
}

static ssize_t ep_write(
	struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t address, uint64_t key, void *context)
{
	struct iovec iov = {(void *) (uintptr_t) buf, len};

	return ep_writev(fid, &iov, &desc, 1, dest, address, key, context);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_msg(of(fid), NDX_WRITE, msg, flags);
}

static ssize_t ep_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest, uint64_t address,
	uint64_t key, void *context)
{
	struct ndx_request r = request(NDX_WRITE, address, key, context);
	struct iovec iov = {(void *) (uintptr_t) buf, len};

	r.immediate = (uint32_t) data;
	return ep_post(of(fid), &r, &iov, &desc, 1, of(fid)->tx_op_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t ep_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t address, uint64_t key)
{
	struct ndx_request r = request(NDX_WRITE, address, key, NULL);

	return ep_inject(of(fid), &r, buf, len);
}

static ssize_t ep_inject_writedata(
	struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t address, uint64_t key)
{
	struct ndx_request r = request(NDX_WRITE, address, key, NULL);

	r.flags = NDX_IMMEDIATE;
	r.immediate = (uint32_t) data;
	return ep_inject(of(fid), &r, buf, len);
}

struct fi_ops_rma ep_rma = {
	.size = sizeof(struct fi_ops_rma),
	.read = ep_read,
	.readv = ep_readv,
	.readmsg = ep_readmsg,
	.write = ep_write,
	.writev = ep_writev,
	.writemsg = ep_writemsg,
	.inject = ep_inject_write,
	.writedata = ep_writedata,
	.injectdata = ep_inject_writedata,
};
