/* mr.c: memory registration. The key and the descriptor of a region are the token of the library. */
#include <stdlib.h>
#include <sys/uio.h>

#include "none.h"

struct mr {
	struct fid_mr fid;
	struct domain *domain;
	ndx_memory handle;
};

static int mr_close(struct fid *fid)
{
	struct mr *mr = container_of(fid, struct mr, fid.fid);
	ndx_status status = lib.memory_close(mr->handle);

	atomic_fetch_sub(&mr->domain->users, 1);
	free(mr);
	return status_errno(status);
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static uint32_t rights(uint64_t access)
{
	uint32_t flags = NDX_BASE;

	if (access & (FI_RECV | FI_READ))
		flags |= NDX_LOCAL_WRITE;
	if (access & FI_REMOTE_READ)
		flags |= NDX_REMOTE_READ;
	if (access & FI_REMOTE_WRITE)
		flags |= NDX_REMOTE_WRITE;
	return flags;
}

/* mr_reg ignores flags: ofi_rxm passes flags of its own. */
static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
	struct fid_mr **out, void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid.fid);
	struct ndx_memory_info info = {.base = (uintptr_t) buf}; /* FI_MR_VIRT_ADDR */
	struct mr *mr;
	ndx_status status;

	if (fid->fclass != FI_CLASS_DOMAIN || !buf || !len || offset)
		return -FI_EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	status = lib.memory_register(domain->adapter->handle, (void *) (uintptr_t) buf, len, rights(access), &info, &mr->handle);
	if (status) {
		INFO(MR, "cannot register %zu bytes at %p: %s\n", len, buf, lib.last_error());
		free(mr);
		return status_errno(status);
	}
	mr->domain = domain;
	atomic_fetch_add(&domain->users, 1);
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.key = info.token;
	mr->fid.mem_desc = (void *) (uintptr_t) info.token;
	*out = &mr->fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
	struct fid_mr **out, void *context)
{
	if (count != 1)
		return -FI_EINVAL;
	return mr_reg(fid, iov->iov_base, iov->iov_len, access, offset, key, flags, out, context);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
	return mr_regv(
		fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key, flags, out, attr->context);
}

struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
