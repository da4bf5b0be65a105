/* eq.c: event queues. Events of connections wait in a queue of the library and are converted when the application reads. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "none.h"

struct eq_entry *eq_entry_new(const void *data, size_t len)
{
	struct eq_entry *entry = calloc(1, sizeof(*entry) + len);

	if (entry && len) {
		memcpy(entry->data, data, len);
		entry->len = len;
	}
	return entry;
}

static void entry_free(struct eq_entry *entry)
{
	if (entry)
		info_free(entry->info);
	free(entry);
}

/* set_wake makes the queue's descriptor readable or not. The eventfd is not blocking, and its two calls have no other failure. */
static void set_wake(struct eq *eq, bool on)
{
	uint64_t value = 1;
	ssize_t n = on ? write(eq->wake, &value, sizeof(value)) : read(eq->wake, &value, sizeof(value));

	(void) n;
}

void eq_push(struct eq *eq, struct eq_entry *entry)
{
	if (!eq->first)
		set_wake(eq, true);
	*eq->last = entry;
	eq->last = &entry->next;
}

static void pop(struct eq *eq)
{
	eq->first = eq->first->next;
	if (eq->first)
		return;
	eq->last = &eq->first;
	set_wake(eq, false);
}

/* fill takes the next event of the library if no entry is in the list. */
static void fill(struct eq *eq)
{
	struct ndx_event event;
	struct eq_entry *entry;

	while (!eq->first && eq->events && lib.event_queue_read(eq->events, &event, 0) > 0) {
		entry = cm_event(&event);
		if (entry)
			eq_push(eq, entry);
	}
}

bool eq_busy(struct eq *eq)
{
	bool busy;

	pthread_mutex_lock(&eq->lock);
	fill(eq);
	busy = eq->first != NULL;
	pthread_mutex_unlock(&eq->lock);
	return busy;
}

static ssize_t take(struct eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct fi_eq_cm_entry *cm = buf;
	struct eq_entry *entry;
	ssize_t size;

	fill(eq);
	entry = eq->first;
	if (!entry)
		return -FI_EAGAIN;
	if (entry->err)
		return -FI_EAVAIL;
	if (len < (entry->written ? entry->len : sizeof(*cm)))
		return -FI_ETOOSMALL;
	*event = entry->event;
	if (entry->written) {
		size = (ssize_t) entry->len;
		memcpy(buf, entry->data, entry->len);
	} else {
		size = (ssize_t) (len - sizeof(*cm) < entry->len ? len - sizeof(*cm) : entry->len);
		cm->fid = entry->fid;
		cm->info = entry->info;
		memcpy(cm->data, entry->data, (size_t) size);
		size += (ssize_t) sizeof(*cm);
	}
	if (flags & FI_PEEK)
		return size;
	pop(eq);
	free(entry); /* the application frees the info */
	return size;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct eq *eq = container_of(fid, struct eq, fid);
	ssize_t ret;

	pthread_mutex_lock(&eq->lock);
	ret = take(eq, event, buf, len, flags);
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct eq *eq = container_of(fid, struct eq, fid);
	struct pollfd fd = {.fd = eq->descriptor, .events = POLLIN};
	int64_t end = timeout < 0 ? 0 : now_ms() + timeout, left;
	ssize_t ret;

	if (eq->wait == FI_WAIT_NONE)
		return -FI_EINVAL;
	while ((ret = eq_read(fid, event, buf, len, flags)) == -FI_EAGAIN) {
		left = timeout < 0 ? -1 : end - now_ms();
		if (timeout >= 0 && left <= 0)
			break;
		poll(&fd, 1, (int) left); /* also after a signal, read again */
	}
	return ret;
}

static void report(struct eq *eq, struct fi_eq_err_entry *to)
{
	struct eq_entry *entry = eq->first;
	size_t room = eq->fabric->fid.api_version >= FI_VERSION(1, 5) && to->err_data ? to->err_data_size : 0;

	pop(eq);
	entry_free(eq->reported);
	eq->reported = entry;
	to->fid = entry->fid;
	to->context = entry->context;
	to->data = 0;
	to->err = entry->err;
	to->prov_errno = (int) entry->status;
	to->err_data_size = entry->len;
	if (room) { /* the application brought memory for the data */
		to->err_data_size = room < entry->len ? room : entry->len;
		memcpy(to->err_data, entry->data, to->err_data_size);
	} else {
		to->err_data = entry->data;
	}
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct eq *eq = container_of(fid, struct eq, fid);
	ssize_t ret = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	fill(eq);
	if (eq->first && eq->first->err) {
		report(eq, buf);
		ret = sizeof(*buf);
	}
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct eq *eq = container_of(fid, struct eq, fid);
	struct eq_entry *entry;

	if (!eq->writable)
		return -FI_EINVAL;
	entry = eq_entry_new(buf, len);
	if (!entry)
		return -FI_ENOMEM;
	entry->event = event;
	entry->written = true;
	pthread_mutex_lock(&eq->lock);
	eq_push(eq, entry);
	pthread_mutex_unlock(&eq->lock);
	return (ssize_t) len;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	return status_string(prov_errno, buf, len);
}

static int watch(struct eq *eq, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(eq->descriptor, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int connect_library(struct eq *eq)
{
	ndx_status status;
	int fd, ret = library_load();

	if (ret || eq->events)
		return ret;
	status = lib.event_queue_create(&eq->events);
	if (!status)
		status = lib.event_queue_descriptor(eq->events, &fd);
	return status ? status_errno(status) : watch(eq, fd);
}

int eq_use(struct eq *eq)
{
	int ret;

	pthread_mutex_lock(&eq->lock);
	ret = connect_library(eq);
	if (!ret)
		atomic_fetch_add(&eq->users, 1);
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

void eq_forget(struct eq *eq, fid_t fid)
{
	struct eq_entry **at, *entry;

	pthread_mutex_lock(&eq->lock);
	for (at = &eq->first; (entry = *at);) {
		if (entry->written || entry->fid != fid) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		entry_free(entry);
	}
	if (eq->last != at) { /* entries were removed behind the last one that is left, or all of them */
		eq->last = at;
		if (!eq->first)
			set_wake(eq, false);
	}
	pthread_mutex_unlock(&eq->lock);
	atomic_fetch_sub(&eq->users, 1);
}

static int eq_close(struct fid *fid)
{
	struct eq *eq = container_of(fid, struct eq, fid.fid);

	if (atomic_load(&eq->users))
		return -FI_EBUSY;
	if (eq->events)
		lib.event_queue_close(eq->events);
	while (eq->first) {
		struct eq_entry *entry = eq->first;

		eq->first = entry->next;
		entry_free(entry);
	}
	entry_free(eq->reported);
	close(eq->wake);
	close(eq->descriptor);
	pthread_mutex_destroy(&eq->lock);
	atomic_fetch_sub(&eq->fabric->users, 1);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct eq *eq = container_of(fid, struct eq, fid.fid);

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *) arg = eq->wait;
		return 0;
	}
	if (command != FI_GETWAIT || eq->wait != FI_WAIT_FD)
		return -FI_ENOSYS;
	*(int *) arg = eq->descriptor;
	return 0;
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = none_bind,
	.control = eq_control,
	.ops_open = none_ops_open,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	enum fi_wait_obj wait = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct eq *eq;
	int ret;

	if (wait == FI_WAIT_SET || wait == FI_WAIT_MUTEX_COND || wait == FI_WAIT_POLLFD || wait > FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	eq->descriptor = epoll_create1(EPOLL_CLOEXEC);
	ret = eq->wake < 0 || eq->descriptor < 0 ? -errno : watch(eq, eq->wake);
	if (ret) {
		close(eq->wake);
		close(eq->descriptor);
		free(eq);
		return ret;
	}
	pthread_mutex_init(&eq->lock, NULL);
	eq->last = &eq->first;
	eq->wait = wait == FI_WAIT_UNSPEC ? FI_WAIT_FD : wait;
	eq->writable = attr && (attr->flags & FI_WRITE);
	eq->fabric = container_of(fid, struct fabric, fid);
	atomic_fetch_add(&eq->fabric->users, 1);
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	*out = &eq->fid;
	return 0;
}
