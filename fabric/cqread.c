/* cqread.c: reads completion queues.
 *
 * A reader usually converts results of the library directly, without a lock. If a result is an error, or if results must be counted, the
 * results go into `kept`, and readers take them from there in order. `kept` holds at most what concurrent readers took in one call each,
 * or, with counters, the depth of the queue.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

char inject_context;

static uint64_t result_flags(const struct ndx_result *r)
{
	switch (r->type) {
	case NDX_SEND:
		return FI_SEND | FI_MSG;
	case NDX_READ:
		return FI_READ | FI_RMA;
	case NDX_WRITE:
		return FI_WRITE | FI_RMA;
	}
	if (!(r->flags & NDX_HAS_IMMEDIATE))
		return FI_RECV | FI_MSG;
	/* This provider solicits no result, so a solicited one with data is that of a Write. */
	return r->flags & NDX_WAS_SOLICITED ? FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE | FI_RMA : FI_REMOTE_CQ_DATA | FI_RECV | FI_MSG;
}

static void convert(const struct cq *cq, void *to, const struct ndx_result *r)
{
	struct fi_cq_tagged_entry entry = {.op_context = (void *) (uintptr_t) r->context};

	if (cq->entry_size > sizeof(struct fi_cq_entry)) {
		entry.flags = result_flags(r);
		entry.len = r->type == NDX_RECEIVE ? r->bytes : 0;
		entry.data = r->flags & NDX_HAS_IMMEDIATE ? r->immediate : 0;
	}
	memcpy(to, &entry, cq->entry_size);
}

static bool grow(struct cq *cq)
{
	size_t room = cq->room ? 2 * cq->room : 2 * CQ_BATCH;
	struct ndx_result *kept = malloc(room * sizeof(*kept));

	if (!kept)
		return false;
	for (size_t i = 0; i < cq->count; i++)
		kept[i] = cq->kept[(cq->first + i) % cq->room];
	free(cq->kept);
	cq->kept = kept;
	cq->room = room;
	cq->first = 0;
	return true;
}

/* keep appends results that the application has to read. The lock is held. */
static void keep(struct cq *cq, struct ndx_result *r, int n)
{
	for (int i = 0; i < n; i++) {
		bounce_result(&r[i]);
		if (cq->tracked ? !track_result(&r[i]) : r[i].context == (uintptr_t) &inject_context)
			continue;
		if (cq->count == cq->room && !grow(cq)) {
			WARN(CQ, "no memory for %d results: they are lost\n", n - i);
			break;
		}
		cq->kept[(cq->first + cq->count++) % cq->room] = r[i];
	}
	atomic_store_explicit(&cq->slow, cq->tracked || cq->count, memory_order_release);
}

static int poll_into_kept(struct cq *cq)
{
	struct ndx_result r[CQ_BATCH];
	int n = lib.cq_poll(cq->handle, r, CQ_BATCH);

	if (n > 0)
		keep(cq, r, n);
	return n;
}

static ssize_t read_kept(struct cq *cq, char *buf, size_t count)
{
	ssize_t got = 0;
	int n = 1;

	pthread_mutex_lock(&cq->lock);
	if (!cq->count)
		n = poll_into_kept(cq);
	while ((size_t) got < count && cq->count && !cq->kept[cq->first].status) {
		convert(cq, buf + (size_t) got * cq->entry_size, &cq->kept[cq->first]);
		cq->first = (cq->first + 1) % cq->room;
		cq->count--;
		got++;
	}
	if (!got)
		got = cq->count ? -FI_EAVAIL : n < 0 ? status_errno((ndx_status) n) : -FI_EAGAIN;
	if (!cq->count && !cq->tracked)
		atomic_store_explicit(&cq->slow, false, memory_order_release);
	pthread_mutex_unlock(&cq->lock);
	return got == -FI_EMSGSIZE ? -FI_EOVERRUN : got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct cq *cq = container_of(fid, struct cq, fid);
	struct ndx_result r[CQ_BATCH];
	int limit = count < CQ_BATCH ? (int) count : CQ_BATCH, n, got = 0;
	char *to = buf;

	if (atomic_load_explicit(&cq->slow, memory_order_acquire))
		return read_kept(cq, buf, count);
	do {
		n = lib.cq_poll(cq->handle, r, (uint32_t) limit);
		for (int i = 0; i < n; i++) {
			if (r[i].status) {
				pthread_mutex_lock(&cq->lock);
				keep(cq, &r[i], n - i);
				pthread_mutex_unlock(&cq->lock);
				return got ? got : read_kept(cq, buf, count);
			}
			bounce_result(&r[i]);
			if (r[i].context == (uintptr_t) &inject_context)
				continue;
			convert(cq, to, &r[i]);
			to += cq->entry_size;
			got++;
		}
	} while (!got && n && n == limit); /* all were injected: an entry may be behind them */
	if (n < 0)
		return read_kept(cq, buf, count);
	return got ? got : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *address)
{
	ssize_t n = cq_read(fid, buf, count);

	for (ssize_t i = 0; address && i < n; i++)
		address[i] = FI_ADDR_NOTAVAIL;
	return n;
}

/* entry_errno distinguishes the two meanings of BUFFER_OVERFLOW: a receive was too small for its message. */
static int entry_errno(const struct ndx_result *r)
{
	return r->status == NDX_ERR_BUFFER_OVERFLOW && r->type == NDX_RECEIVE ? FI_ETRUNC : -status_errno(r->status);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct cq *cq = container_of(fid, struct cq, fid);
	const struct ndx_result *r;
	ssize_t ret = -FI_EAGAIN;

	pthread_mutex_lock(&cq->lock);
	if (cq->count && cq->kept[cq->first].status) {
		r = &cq->kept[cq->first];
		buf->op_context = (void *) (uintptr_t) r->context;
		buf->flags = result_flags(r);
		buf->len = buf->olen = 0;
		buf->buf = NULL;
		buf->data = buf->tag = 0;
		buf->err = entry_errno(r);
		buf->prov_errno = (int) r->status;
		buf->err_data_size = 0;
		cq->first = (cq->first + 1) % cq->room;
		cq->count--;
		atomic_store_explicit(&cq->slow, cq->tracked || cq->count, memory_order_release);
		ret = 1;
	}
	pthread_mutex_unlock(&cq->lock);
	return ret;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	struct cq *cq = container_of(fid, struct cq, fid);
	int64_t end = timeout < 0 ? 0 : now_ms() + timeout, left = -1;
	ssize_t ret;

	if (cq->wait == FI_WAIT_NONE)
		return -FI_EINVAL;
	while ((ret = cq_read(fid, buf, count)) == -FI_EAGAIN) {
		if (atomic_exchange(&cq->signaled, false))
			break;
		if (timeout >= 0 && (left = end - now_ms()) <= 0)
			break;
		ret = lib.cq_wait(cq->handle, NDX_NOTIFY_ANY, (int32_t) left);
		if (ret < 0)
			return status_errno((ndx_status) ret);
	}
	return ret;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *address, const void *cond, int timeout)
{
	ssize_t n = cq_sread(fid, buf, count, cond, timeout);

	for (ssize_t i = 0; address && i < n; i++)
		address[i] = FI_ADDR_NOTAVAIL;
	return n;
}

static int cq_signal(struct fid_cq *fid)
{
	struct cq *cq = container_of(fid, struct cq, fid);

	atomic_store(&cq->signaled, true);
	return status_errno(lib.cq_wake(cq->handle));
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	return status_string(prov_errno, buf, len);
}

void cq_progress(struct cq *cq)
{
	pthread_mutex_lock(&cq->lock);
	while (poll_into_kept(cq) == CQ_BATCH)
		;
	pthread_mutex_unlock(&cq->lock);
}

/* cq_busy arms the descriptor, unless entries can be read now. */
bool cq_busy(struct cq *cq)
{
	if (cq->tracked)
		cq_progress(cq);
	if (atomic_load(&cq->slow)) {
		bool kept;

		pthread_mutex_lock(&cq->lock);
		kept = cq->count != 0;
		pthread_mutex_unlock(&cq->lock);
		if (kept)
			return true;
	}
	return lib.cq_arm(cq->handle, NDX_NOTIFY_ANY) != 0;
}

struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};
