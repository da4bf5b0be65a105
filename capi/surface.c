// The public functions. They refuse to work in a forked child, and keep the text of the newest failure of each thread.
#include "ndxdp.h"
#include "_cgo_export.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	error_len = 512,
	cause_len = 256, // causeLen of status.go
};

static _Thread_local char last_error[error_len];

// forked is set in a child of fork. owner is the process that loaded the library: clone without fork's handlers leaves forked unset.
static int forked;
static pid_t owner;

static void in_child(void) { forked = 1; }

// When the library is loaded, Go's runtime starts a thread. It inherits the signal mask of the loading thread, and all threads of the
// runtime get this mask later. So all signals are blocked meanwhile: constructors with a priority run before the constructor of the
// runtime, and the linker puts constructors of C files behind it.
static sigset_t mask;

__attribute__((constructor(101))) static void loading(void) {
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &mask);
}

__attribute__((constructor)) static void loaded(void) {
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	owner = getpid();
	pthread_atfork(NULL, NULL, in_child);
}

// told keeps the text of a failure, and returns the status.
static ndx_status told(const char *function, ndx_status s, const char *cause) {
	if (ndx_failed(s))
		snprintf(last_error, sizeof last_error, "%s: %s (%s)%s%s", function, ndx_status_text(s), ndx_status_name(s), *cause ? ": " : "", cause);
	return s;
}

// told_count is told for functions that return a count.
static int32_t told_count(const char *function, int32_t n) {
	if (n < 0)
		told(function, (ndx_status)n, "");
	return n;
}

// CALL runs a function of the Go part that may write a cause. QUICK is for the functions that move data: they look at a flag only, and tell
// only of wrong handles.
#define CALL(...)                                                              \
	char cause[cause_len] = "";                                                \
	ndx_status s = forked || getpid() != owner ? NDX_ERR_FORKED : __VA_ARGS__; \
	return told(__func__, s, cause)
#define QUICK(...)                                                          \
	ndx_status s = forked ? NDX_ERR_FORKED : __VA_ARGS__;                   \
	return s == NDX_ERR_INVALID_HANDLE ? told(__func__, s, "") : s
#define QUICK_COUNT(...)                                                          \
	int32_t n_ = forked ? (int32_t)NDX_ERR_FORKED : __VA_ARGS__;                  \
	return n_ == (int32_t)NDX_ERR_INVALID_HANDLE ? told_count(__func__, n_) : n_

uint32_t ndx_abi(void) { return NDX_ABI; }
const char *ndx_version(void) { return forked ? "" : ndxgo_version(); }
const char *ndx_last_error(void) { return last_error; }

ndx_status ndx_adapter_open(const struct sockaddr *addr, const struct ndx_adapter_config *config, ndx_adapter *adapter) {
	struct ndx_adapter_config c = {0};
	if (config)
		memcpy(&c, config, config->size < sizeof c ? config->size : sizeof c);
	CALL(ndxgo_adapter_open((struct sockaddr *)addr, &c, cause, adapter));
}

ndx_status ndx_adapter_query(ndx_adapter adapter, struct ndx_adapter_info *info) {
	CALL(ndxgo_adapter_query(adapter, info));
}

ndx_status ndx_adapter_close(ndx_adapter adapter) { CALL(ndxgo_adapter_close(adapter, cause)); }

ndx_status ndx_memory_register(
	ndx_adapter adapter, void *address, uint64_t length, uint32_t flags, struct ndx_memory_info *info, ndx_memory *memory) {
	CALL(ndxgo_memory_register(adapter, address, length, flags, info, cause, memory));
}

ndx_status ndx_memory_allocate(ndx_adapter adapter, uint64_t length, uint32_t flags, struct ndx_memory_info *info, ndx_memory *memory) {
	CALL(ndxgo_memory_allocate(adapter, length, flags, info, cause, memory));
}

ndx_status ndx_memory_close(ndx_memory memory) { CALL(ndxgo_memory_close(memory, cause)); }

ndx_status ndx_cq_create(ndx_adapter adapter, uint32_t depth, ndx_cq *cq) { CALL(ndxgo_cq_create(adapter, depth, cq)); }
ndx_status ndx_cq_resize(ndx_cq cq, uint32_t depth) { CALL(ndxgo_cq_resize(cq, depth)); }

ndx_status ndx_cq_close(ndx_cq cq) { CALL(ndxgo_cq_close(cq)); }
ndx_status ndx_cq_descriptor(ndx_cq cq, int *fd) { CALL(ndxgo_cq_descriptor(cq, fd, cause)); }
int32_t ndx_cq_poll(ndx_cq cq, struct ndx_result *results, uint32_t n) { QUICK_COUNT(ndxgo_cq_poll(cq, results, n)); }
int32_t ndx_cq_arm(ndx_cq cq, uint32_t level) { QUICK_COUNT(ndxgo_cq_arm(cq, level)); }
int32_t ndx_cq_wait(ndx_cq cq, uint32_t level, int32_t timeout_ms) { QUICK_COUNT(ndxgo_cq_wait(cq, level, timeout_ms)); }
ndx_status ndx_cq_wake(ndx_cq cq) { CALL(ndxgo_cq_wake(cq)); }

ndx_status ndx_srq_create(ndx_adapter adapter, uint32_t depth, uint32_t max_sge, ndx_srq *srq) {
	CALL(ndxgo_srq_create(adapter, depth, max_sge, srq));
}

ndx_status ndx_srq_close(ndx_srq srq) { CALL(ndxgo_srq_close(srq)); }

ndx_status ndx_qp_create(ndx_adapter adapter, const struct ndx_qp_config *config, ndx_qp *qp) {
	struct ndx_qp_config c = {0};
	memcpy(&c, config, config->size < sizeof c ? config->size : sizeof c);
	CALL(ndxgo_qp_create(adapter, &c, qp));
}

ndx_status ndx_qp_flush(ndx_qp qp) { CALL(ndxgo_qp_flush(qp)); }
ndx_status ndx_qp_close(ndx_qp qp) { CALL(ndxgo_qp_close(qp)); }

ndx_status ndx_post(ndx_qp qp, const struct ndx_request *requests, uint32_t n, uint32_t *posted) {
	uint32_t done = 0;
	if (!posted)
		posted = &done;
	*posted = 0;
	QUICK(ndxgo_post(qp, (struct ndx_request *)requests, n, posted));
}

ndx_status ndx_receive(ndx_qp qp, const struct ndx_receive *receives, uint32_t n, uint32_t *posted) {
	uint32_t done = 0;
	if (!posted)
		posted = &done;
	*posted = 0;
	QUICK(ndxgo_receive(qp, (struct ndx_receive *)receives, n, posted));
}

ndx_status ndx_shared_receive(ndx_srq srq, const struct ndx_receive *receives, uint32_t n, uint32_t *posted) {
	uint32_t done = 0;
	if (!posted)
		posted = &done;
	*posted = 0;
	QUICK(ndxgo_shared_receive(srq, (struct ndx_receive *)receives, n, posted));
}

ndx_status ndx_event_queue_create(ndx_event_queue *queue) { CALL(ndxgo_event_queue_create(queue, cause)); }
ndx_status ndx_event_queue_close(ndx_event_queue queue) { CALL(ndxgo_event_queue_close(queue)); }
ndx_status ndx_event_queue_descriptor(ndx_event_queue queue, int *fd) { CALL(ndxgo_event_queue_descriptor(queue, fd)); }

// milliseconds returns the time since some moment.
static int64_t milliseconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int32_t ndx_event_queue_read(ndx_event_queue queue, struct ndx_event *event, int32_t timeout_ms) {
	int64_t end = timeout_ms > 0 ? milliseconds() + timeout_ms : 0;
	for (;;) {
		struct pollfd p = {.events = POLLIN};
		int32_t n = forked || getpid() != owner ? (int32_t)NDX_ERR_FORKED : ndxgo_event_queue_read(queue, event, &p.fd);
		if (n != 0)
			return told_count(__func__, n);
		int64_t left = timeout_ms > 0 ? end - milliseconds() : timeout_ms;
		if (timeout_ms >= 0 && left <= 0)
			return 0;
		if (poll(&p, 1, timeout_ms < 0 ? -1 : (int)left) < 0 && errno != EINTR)
			return told_count(__func__, (int32_t)NDX_ERR_UNSUCCESSFUL);
	}
}

ndx_status ndx_listen(ndx_adapter adapter, const struct sockaddr *addr, uint32_t backlog, ndx_event_queue queue, uint64_t cookie,
	ndx_listener *listener) {
	CALL(ndxgo_listen(adapter, (struct sockaddr *)addr, backlog, queue, cookie, cause, listener));
}

ndx_status ndx_listener_address(ndx_listener listener, struct sockaddr_storage *addr) { CALL(ndxgo_listener_address(listener, addr)); }
ndx_status ndx_listener_close(ndx_listener listener) { CALL(ndxgo_listener_close(listener)); }

ndx_status ndx_connector_create(ndx_adapter adapter, ndx_event_queue queue, uint64_t cookie, ndx_connector *connector) {
	CALL(ndxgo_connector_create(adapter, queue, cookie, connector));
}

ndx_status ndx_connector_events(ndx_connector connector, ndx_event_queue queue, uint64_t cookie) {
	CALL(ndxgo_connector_events(connector, queue, cookie));
}

ndx_status ndx_connector_bind(ndx_connector connector, const struct sockaddr *addr) {
	CALL(ndxgo_connector_bind(connector, (struct sockaddr *)addr, cause));
}

// own copies the parameters of a connection, whose size may be of another version of the header.
static struct ndx_connect_params own(const struct ndx_connect_params *params) {
	struct ndx_connect_params p = {0};
	if (params)
		memcpy(&p, params, params->size < sizeof p ? params->size : sizeof p);
	return p;
}

ndx_status ndx_connect(ndx_connector connector, ndx_qp qp, const struct sockaddr *peer, const struct ndx_connect_params *params) {
	struct ndx_connect_params p = own(params);
	CALL(ndxgo_connect(connector, qp, (struct sockaddr *)peer, &p, cause));
}

ndx_status ndx_accept(ndx_connector connector, ndx_qp qp, const struct ndx_connect_params *params) {
	struct ndx_connect_params p = own(params);
	CALL(ndxgo_accept(connector, qp, &p));
}

ndx_status ndx_reject(ndx_connector connector, const void *private_data, uint32_t length) {
	CALL(ndxgo_reject(connector, (void *)private_data, length));
}

ndx_status ndx_disconnect(ndx_connector connector) { CALL(ndxgo_disconnect(connector)); }
ndx_status ndx_connector_local(ndx_connector connector, struct sockaddr_storage *addr) { CALL(ndxgo_connector_address(connector, 0, addr)); }
ndx_status ndx_connector_peer(ndx_connector connector, struct sockaddr_storage *addr) { CALL(ndxgo_connector_address(connector, 1, addr)); }
ndx_status ndx_connector_close(ndx_connector connector) { CALL(ndxgo_connector_close(connector)); }
