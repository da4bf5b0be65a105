/* track.c: requests of endpoints that have counters, or that suppress completions of receives.
 *
 * The library can suppress the result of a successful request, but then nothing is left to count. A tracked endpoint gets all results, and
 * remembers in the order of posting which of them the application wants to read.
 */
#include <stdlib.h>

#include "provider.h"

static int make(struct track *track, uint32_t size)
{
	track->flags = calloc(size, 1);
	track->size = track->flags ? size : 0;
	return track->flags ? 0 : -FI_ENOMEM;
}

int track_open(struct ep *ep)
{
	int ret = make(&ep->tx, (uint32_t) ep->info->tx_attr->size);

	if (!ret && !ep->srx) /* the receives of a shared context are not in the order of one endpoint */
		ret = make(&ep->rx, (uint32_t) ep->info->rx_attr->size);
	ep->tracked = !ret;
	return ret;
}

void track_close(struct ep *ep)
{
	free(ep->tx.flags);
	free(ep->rx.flags);
}

static bool full(const struct track *track)
{
	return track->tail - track->head == track->size;
}

static void push(struct track *track, unsigned flags)
{
	track->flags[track->tail++ % track->size] = (unsigned char) flags;
}

ndx_status track_post(struct ep *ep, const struct ndx_request *request, unsigned flags)
{
	ndx_status status = NDX_ERR_NO_MORE_ENTRIES;

	pthread_mutex_lock(&ep->lock);
	if (!full(&ep->tx))
		status = lib.post(ep->qp, request, 1, NULL);
	if (!status)
		push(&ep->tx, flags);
	pthread_mutex_unlock(&ep->lock);
	return status;
}

ndx_status track_receive(struct ep *ep, const struct ndx_receive *receive, unsigned flags)
{
	ndx_status status = NDX_ERR_NO_MORE_ENTRIES;

	pthread_mutex_lock(&ep->lock);
	if (!full(&ep->rx))
		status = lib.receive(ep->qp, receive, 1, NULL);
	if (!status)
		push(&ep->rx, flags);
	pthread_mutex_unlock(&ep->lock);
	return status;
}

static unsigned next_flags(struct ep *ep, struct track *track)
{
	unsigned flags = TRACK_ENTRY;

	pthread_mutex_lock(&ep->lock);
	if (track->head != track->tail)
		flags = track->flags[track->head++ % track->size];
	pthread_mutex_unlock(&ep->lock);
	return flags;
}

static int counter_of(const struct ndx_result *r)
{
	switch (r->type) {
	case NDX_SEND:
		return COUNT_SEND;
	case NDX_READ:
		return COUNT_READ;
	case NDX_WRITE:
		return COUNT_WRITE;
	}
	return COUNT_RECV;
}

bool track_result(const struct ndx_result *r)
{
	struct ep *ep = (struct ep *) (uintptr_t) r->qp_context;
	struct track *track = r->type == NDX_RECEIVE ? &ep->rx : &ep->tx;
	struct cntr *cntr = ep->counters[counter_of(r)];
	unsigned flags = track->size ? next_flags(ep, track) : TRACK_ENTRY;

	if (cntr)
		cntr_count(cntr, r->status);
	if (r->context == (uintptr_t) &inject_context)
		return false;
	return r->status || (flags & TRACK_ENTRY);
}
