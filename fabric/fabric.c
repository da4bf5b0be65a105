/* fabric.c: the fabric object, and fi_trywait. */
#include <stdlib.h>

#include "none.h"

static int fabric_close(struct fid *fid)
{
	struct fabric *fabric = container_of(fid, struct fabric, fid.fid);

	if (atomic_load(&fabric->users))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static bool busy(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return cq_busy(container_of(fid, struct cq, fid.fid));
	case FI_CLASS_EQ:
		return eq_busy(container_of(fid, struct eq, fid.fid));
	}
	return false;
}

/* has_descriptor reports whether the object was opened with FI_WAIT_FD. */
static bool has_descriptor(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return container_of(fid, struct cq, fid.fid)->wait == FI_WAIT_FD;
	case FI_CLASS_EQ:
		return container_of(fid, struct eq, fid.fid)->wait == FI_WAIT_FD;
	}
	return false;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		if (!has_descriptor(fids[i]))
			return -FI_EINVAL;
		if (busy(fids[i]))
			return -FI_EAGAIN;
	}
	return 0;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **wait)
{
	return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = domain_open,
	.passive_ep = pep_open,
	.eq_open = eq_open,
	.wait_open = no_wait_open,
	.trywait = fabric_trywait,
};

int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	*fid = &fabric->fid;
	return 0;
}
