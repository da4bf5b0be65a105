/* bounce.c: injected requests that are longer than the library copies into its queues.
 *
 * Their bytes are copied into slots of registered memory, which are used in turn, because a queue pair completes its requests in the order of
 * posting. The context of such a request is its slot, until a reader of the completion queue puts the application's context in its place.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "provider.h"

enum { SLOTS = 32 };

struct slot {
	uint64_t context; /* the application's, or inject_context if success is no entry of the completion queue */
	uint64_t failed;  /* context if the request fails */
	atomic_bool used; /* until a reader has the result */
};

struct bounce {
	ndx_memory handle;
	uint32_t token;
	uint32_t next; /* slot of the next request */
	struct slot slots[SLOTS];
	unsigned char bytes[SLOTS][MAX_INJECT];
};

/* make makes the slots when they are needed first. The lock is held. */
static int make(struct ep *ep)
{
	struct ndx_memory_info info = {0};
	struct bounce *b = calloc(1, sizeof(*b));
	ndx_status status;

	if (!b)
		return -FI_ENOMEM;
	status = lib.memory_register(ep->domain->adapter->handle, b->bytes, sizeof(b->bytes), 0, &info, &b->handle);
	if (status) {
		free(b);
		return status_errno(status);
	}
	b->token = info.token;
	atomic_store(&ep->bounce, b);
	return 0;
}

static void copy(unsigned char *to, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; to += iov[i++].iov_len)
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
}

static ssize_t post(struct ep *ep, struct ndx_request *request, const struct iovec *iov, size_t count, size_t len, bool wanted)
{
	struct bounce *b = atomic_load(&ep->bounce);
	struct slot *slot = &b->slots[b->next];
	struct ndx_sge sge = {.address = (uintptr_t) b->bytes[b->next], .length = (uint32_t) len, .token = b->token};
	ndx_status status;

	if (atomic_load_explicit(&slot->used, memory_order_acquire))
		return -FI_EAGAIN;
	copy(b->bytes[b->next], iov, count);
	slot->failed = request->context;
	slot->context = wanted || ep->tracked ? request->context : (uintptr_t) &inject_context;
	atomic_store_explicit(&slot->used, true, memory_order_relaxed);
	request->context = (uintptr_t) slot;
	request->sgl = &sge;
	request->nsge = 1;
	status = ep->tracked ? track_post(ep, request, wanted ? TRACK_ENTRY : 0) : lib.post(ep->qp, request, 1, NULL);
	if (status)
		atomic_store_explicit(&slot->used, false, memory_order_relaxed);
	else
		b->next = (b->next + 1) % SLOTS;
	return status_errno(status);
}

ssize_t bounce_post(struct ep *ep, struct ndx_request *request, const struct iovec *iov, size_t count, size_t len, bool wanted)
{
	ssize_t ret = 0;

	pthread_mutex_lock(&ep->bounce_lock);
	if (!atomic_load(&ep->bounce))
		ret = make(ep);
	if (!ret)
		ret = post(ep, request, iov, count, len, wanted);
	pthread_mutex_unlock(&ep->bounce_lock);
	if (ret == -FI_EAGAIN) /* an application that only injects does not read the queue */
		cq_progress(ep->tx_cq);
	return ret;
}

void bounce_result(struct ndx_result *r)
{
	struct ep *ep = (struct ep *) (uintptr_t) r->qp_context;
	struct bounce *b = r->type == NDX_RECEIVE ? NULL : atomic_load_explicit(&ep->bounce, memory_order_acquire);
	struct slot *slot;

	if (!b || r->context - (uintptr_t) b->slots >= sizeof(b->slots))
		return;
	slot = (struct slot *) (uintptr_t) r->context;
	r->context = r->status ? slot->failed : slot->context;
	atomic_store_explicit(&slot->used, false, memory_order_release);
}

void bounce_close(struct ep *ep)
{
	struct bounce *b = atomic_load(&ep->bounce);

	if (!b)
		return;
	lib.memory_close(b->handle);
	free(b);
}
