/* domain.c: the domain object, an adapter. */
#include <stdlib.h>

#include "none.h"

static int domain_close(struct fid *fid)
{
	struct domain *domain = container_of(fid, struct domain, fid.fid);

	if (atomic_load(&domain->users))
		return -FI_EBUSY;
	adapter_put(domain->adapter);
	atomic_fetch_sub(&domain->fabric->users, 1);
	free(domain);
	return 0;
}

static int no_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
	return -FI_ENOSYS;
}

static int no_scalable_ep(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
	return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **poll)
{
	return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
	return -FI_ENOSYS;
}

static int no_atomic(struct fid_domain *fid, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = no_av_open,
	.cq_open = cq_open,
	.endpoint = ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = cntr_open,
	.poll_open = no_poll_open,
	.stx_ctx = no_stx,
	.srx_ctx = srx_open,
	.query_atomic = no_atomic,
};

int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
	struct domain *domain;
	int ret;

	if (!info || !address_valid(info->src_addr, info->src_addrlen))
		return -FI_EINVAL;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	ret = adapter_get(info->src_addr, &domain->adapter);
	if (ret) {
		free(domain);
		return ret;
	}
	domain->fabric = container_of(fid, struct fabric, fid);
	atomic_fetch_add(&domain->fabric->users, 1);
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &mr_ops;
	*out = &domain->fid;
	return 0;
}
