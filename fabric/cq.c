/* cq.c: makes, tunes and closes completion queues. cqread.c reads them. */
#include <stdlib.h>

#include "none.h"

static const size_t entry_sizes[] = {
	[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_entry),
	[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
	[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

static bool attr_fits(const struct fi_cq_attr *attr)
{
	switch (attr->wait_obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_YIELD:
		break;
	default:
		return false;
	}
	return attr->format >= FI_CQ_FORMAT_UNSPEC && attr->format <= FI_CQ_FORMAT_TAGGED && attr->size <= MAX_CQ;
}

void cq_free(struct cq *cq)
{
	if (cq->handle)
		lib.cq_close(cq->handle);
	pthread_mutex_destroy(&cq->lock);
	free(cq->kept);
	atomic_fetch_sub(&cq->domain->users, 1);
	free(cq);
}

static int cq_close(struct fid *fid)
{
	struct cq *cq = container_of(fid, struct cq, fid.fid);

	if (atomic_load(&cq->users))
		return -FI_EBUSY;
	cq_free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct cq *cq = container_of(fid, struct cq, fid.fid);

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *) arg = cq->wait;
		return 0;
	}
	if (command != FI_GETWAIT || cq->wait != FI_WAIT_FD)
		return -FI_ENOSYS;
	return status_errno(lib.cq_descriptor(cq->handle, arg));
}

int cq_fit(struct cq *cq, uint32_t results)
{
	ndx_status status = NDX_SUCCESS;
	uint32_t need, depth;

	pthread_mutex_lock(&cq->lock);
	need = cq->need + results;
	depth = need < MAX_CQ ? need : MAX_CQ;
	if (depth > cq->depth)
		status = lib.cq_resize(cq->handle, depth);
	if (!status) {
		cq->need = need;
		cq->depth = depth > cq->depth ? depth : cq->depth;
	}
	pthread_mutex_unlock(&cq->lock);
	return status_errno(status);
}

void cq_unfit(struct cq *cq, uint32_t results)
{
	pthread_mutex_lock(&cq->lock);
	cq->need -= results;
	pthread_mutex_unlock(&cq->lock);
}

void cq_track(struct cq *cq)
{
	pthread_mutex_lock(&cq->lock);
	cq->tracked = true;
	atomic_store(&cq->slow, true);
	pthread_mutex_unlock(&cq->lock);
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = none_bind,
	.control = cq_control,
	.ops_open = none_ops_open,
};

int cq_new(struct domain *domain, const struct fi_cq_attr *attr, struct cq **out, void *context)
{
	struct cq *cq = calloc(1, sizeof(*cq));
	ndx_status status;

	if (!cq)
		return -FI_ENOMEM;
	pthread_mutex_init(&cq->lock, NULL);
	cq->domain = domain;
	atomic_fetch_add(&domain->users, 1);
	cq->entry_size = entry_sizes[attr->format];
	cq->wait = attr->wait_obj;
	cq->depth = (uint32_t) (attr->size ? attr->size : DEFAULT_CQ);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	status = lib.cq_create(domain->adapter->handle, cq->depth, &cq->handle);
	if (status) {
		cq_free(cq);
		return status_errno(status);
	}
	*out = cq;
	return 0;
}

int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct fi_cq_attr none = {0};
	struct cq *cq;
	int ret;

	if (!attr)
		attr = &none;
	if (!attr_fits(attr))
		return -FI_ENOSYS;
	ret = cq_new(container_of(fid, struct domain, fid), attr, &cq, context);
	if (ret)
		return ret;
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_CONTEXT;
	*out = &cq->fid;
	return 0;
}
