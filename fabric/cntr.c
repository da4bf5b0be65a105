/* cntr.c: counters. Results are counted when a counter or a completion queue is read, in the order of completion. */
#include <stdlib.h>

#include "none.h"

enum { WAIT_STEP_MS = 10 }; /* a counter may have several queues and waits at the first */

int cntr_feed(struct cntr *cntr, struct cq *cq)
{
	struct feed *feed = malloc(sizeof(*feed));

	if (!feed)
		return -FI_ENOMEM;
	feed->cq = cq;
	pthread_mutex_lock(&cntr->lock);
	feed->next = cntr->feeds;
	cntr->feeds = feed;
	pthread_mutex_unlock(&cntr->lock);
	return 0;
}

void cntr_unfeed(struct cntr *cntr, struct cq *cq)
{
	struct feed **at = &cntr->feeds, *feed;

	pthread_mutex_lock(&cntr->lock);
	while (*at && (*at)->cq != cq)
		at = &(*at)->next;
	feed = *at;
	if (feed)
		*at = feed->next;
	pthread_mutex_unlock(&cntr->lock);
	free(feed);
}

void cntr_count(struct cntr *cntr, ndx_status status)
{
	atomic_fetch_add(status ? &cntr->errors : &cntr->value, 1);
}

static void progress(struct cntr *cntr)
{
	pthread_mutex_lock(&cntr->lock);
	for (struct feed *f = cntr->feeds; f; f = f->next)
		cq_progress(f->cq);
	pthread_mutex_unlock(&cntr->lock);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct cntr *cntr = container_of(fid, struct cntr, fid);

	progress(cntr);
	return atomic_load(&cntr->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct cntr *cntr = container_of(fid, struct cntr, fid);

	progress(cntr);
	return atomic_load(&cntr->errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&container_of(fid, struct cntr, fid)->value, value);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&container_of(fid, struct cntr, fid)->value, value);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&container_of(fid, struct cntr, fid)->errors, value);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&container_of(fid, struct cntr, fid)->errors, value);
	return 0;
}

/* sleep_for waits until the counter may have changed, for WAIT_STEP_MS at most. */
static void sleep_for(struct cntr *cntr)
{
	struct timespec step = {.tv_nsec = WAIT_STEP_MS * 1000000};
	ndx_cq handle;

	pthread_mutex_lock(&cntr->lock);
	handle = cntr->feeds ? cntr->feeds->cq->handle : 0;
	pthread_mutex_unlock(&cntr->lock);
	/* A handle that was closed meanwhile is refused, and is not an object of somebody else. */
	if (!handle || lib.cq_wait(handle, NDX_NOTIFY_ANY, WAIT_STEP_MS) < 0)
		nanosleep(&step, NULL);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct cntr *cntr = container_of(fid, struct cntr, fid);
	uint64_t errors = atomic_load(&cntr->errors);
	int64_t end = timeout < 0 ? 0 : now_ms() + timeout;

	while (cntr_read(fid) < threshold) {
		if (atomic_load(&cntr->errors) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && now_ms() >= end)
			return -FI_ETIMEDOUT;
		sleep_for(cntr);
	}
	return 0;
}

static int cntr_close(struct fid *fid)
{
	struct cntr *cntr = container_of(fid, struct cntr, fid.fid);

	if (atomic_load(&cntr->users))
		return -FI_EBUSY;
	pthread_mutex_destroy(&cntr->lock);
	atomic_fetch_sub(&cntr->domain->users, 1);
	free(cntr);
	return 0;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = none_bind,
	.control = none_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	struct cntr *cntr;

	if (attr && (attr->events != FI_CNTR_EVENTS_COMP || (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC) || attr->flags))
		return -FI_ENOSYS;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	pthread_mutex_init(&cntr->lock, NULL);
	cntr->domain = container_of(fid, struct domain, fid);
	atomic_fetch_add(&cntr->domain->users, 1);
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &cntr_fid_ops;
	cntr->fid.ops = &cntr_ops;
	*out = &cntr->fid;
	return 0;
}
