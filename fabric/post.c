/* post.c: posts requests of all kinds. */
#include <sys/uio.h>

#include "provider.h"

int sgl_set(struct ndx_sge *sgl, const struct iovec *iov, void **desc, size_t count)
{
	int n = 0;

	if (count > MAX_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (!iov[i].iov_len) /* no bytes, and so perhaps no region */
			continue;
		if (iov[i].iov_len > MAX_MESSAGE)
			return -FI_EMSGSIZE;
		sgl[n++] = (struct ndx_sge){
			.address = (uintptr_t) iov[i].iov_base,
			.length = (uint32_t) iov[i].iov_len,
			.token = desc ? (uint32_t) (uintptr_t) desc[i] : 0,
		};
	}
	return n;
}

int sgl_set_receive(struct ndx_sge *sgl, const struct iovec *iov, void **desc, size_t count)
{
	size_t used = 0;

	while (used < count && iov[used].iov_base)
		used++;
	return sgl_set(sgl, iov, desc, used);
}

/* wanted reports whether success of the request is an entry of the completion queue. */
static bool wanted(const struct ep *ep, uint64_t flags)
{
	return !ep->tx_selective || (flags & FI_COMPLETION);
}

static size_t total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

ssize_t ep_post(struct ep *ep, struct ndx_request *request, const struct iovec *iov, void **desc, size_t count, uint64_t flags)
{
	struct ndx_sge sgl[MAX_IOV];
	int n = sgl_set(sgl, iov, desc, count);

	if (n < 0)
		return n;
	request->sgl = sgl;
	request->nsge = (uint32_t) n;
	if (flags & FI_MORE)
		request->flags |= NDX_DEFER;
	if (flags & FI_FENCE)
		request->flags |= NDX_FENCE;
	if (flags & FI_REMOTE_CQ_DATA)
		request->flags |= NDX_IMMEDIATE;
	if ((flags & FI_INJECT) && request->type != NDX_READ) {
		size_t len = total(iov, count);

		if (len > MAX_INJECT)
			return -FI_EMSGSIZE;
		if (len > INLINE)
			return bounce_post(ep, request, iov, count, len, wanted(ep, flags));
		request->flags |= NDX_INLINE;
	}
	if (ep->tracked)
		return status_errno(track_post(ep, request, wanted(ep, flags) ? TRACK_ENTRY : 0));
	if (!wanted(ep, flags))
		request->flags |= NDX_SILENT;
	return status_errno(lib.post(ep->qp, request, 1, NULL));
}

ssize_t ep_inject(struct ep *ep, struct ndx_request *request, const void *buf, size_t len)
{
	struct ndx_sge sge = {.address = (uintptr_t) buf, .length = (uint32_t) len};

	if (len > MAX_INJECT)
		return -FI_EMSGSIZE;
	request->context = (uintptr_t) &inject_context;
	if (len > INLINE)
		return bounce_post(ep, request, &(struct iovec){(void *) (uintptr_t) buf, len}, 1, len, false);
	request->sgl = &sge;
	request->nsge = len != 0;
	request->flags |= NDX_INLINE;
	if (ep->tracked)
		return status_errno(track_post(ep, request, 0));
	request->flags |= NDX_SILENT;
	return status_errno(lib.post(ep->qp, request, 1, NULL));
}
