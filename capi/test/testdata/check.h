// What the checks of libndxdp share. Each check is a program's argument; it exits with 0 or prints what is wrong.
#include <arpa/inet.h>
#include <errno.h>
#include <ndxdp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(ok, ...)                                          \
	do {                                                        \
		if (!(ok)) {                                            \
			fprintf(stderr, "%s:%d: ", __func__, __LINE__);     \
			fprintf(stderr, __VA_ARGS__);                       \
			fprintf(stderr, " [%s]\n", ndx_last_error());       \
			exit(1);                                            \
		}                                                       \
	} while (0)

#define MUST(call)                                                                       \
	do {                                                                                 \
		ndx_status status_ = (call);                                                     \
		CHECK(!ndx_failed(status_), "%s: %s", #call, ndx_status_name(status_));          \
	} while (0)

#define WANT(call, want)                                                                                              \
	do {                                                                                                              \
		ndx_status status_ = (ndx_status)(call);                                                                      \
		CHECK(status_ == (want), "%s: %s instead of %s", #call, ndx_status_name(status_), ndx_status_name(want));     \
	} while (0)

enum { DEPTH = 16, BUFFER = 4096, PORT = 7100, PATIENCE_MS = 20000 };

// One end of a connection.
struct end {
	ndx_adapter adapter;
	ndx_event_queue events;
	ndx_cq cq;
	ndx_qp qp;
	ndx_connector connector;
	ndx_memory memory;
	struct ndx_memory_info info;
	unsigned char *buffer; // BUFFER bytes of malloc, registered with base 0
};

// host returns the text of a loopback address. The environment has its first three bytes, so that several runs do not meet.
static inline const char *host(int n) {
	static char text[4][16];
	snprintf(text[n], sizeof text[n], "%s.%d", getenv("CHECK_NET") ? getenv("CHECK_NET") : "127.0.0", n);
	return text[n];
}

static inline struct sockaddr_in address(const char *ip, uint16_t port) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1, "%s", ip);
	return a;
}

static inline ndx_adapter adapter_at(const char *ip) {
	struct sockaddr_in a = address(ip, 0);
	struct ndx_adapter_config c = {.size = sizeof c, .datapath = "udp"};
	ndx_adapter adapter;
	MUST(ndx_adapter_open((struct sockaddr *)&a, &c, &adapter));
	return adapter;
}

static inline ndx_qp queue_pair(struct end *e, ndx_srq srq, uint64_t context) {
	struct ndx_qp_config c = {.size = sizeof c, .context = context, .receive_cq = e->cq, .initiator_cq = e->cq, .srq = srq,
		.receive_depth = DEPTH, .initiator_depth = DEPTH, .receive_sge = 4, .initiator_sge = 4, .inline_size = 64};
	ndx_qp qp;
	MUST(ndx_qp_create(e->adapter, &c, &qp));
	return qp;
}

static inline struct end open_end(const char *ip) {
	struct end e = {.adapter = adapter_at(ip)};
	MUST(ndx_event_queue_create(&e.events));
	MUST(ndx_cq_create(e.adapter, 8 * DEPTH, &e.cq));
	e.qp = queue_pair(&e, 0, 5);
	e.buffer = calloc(1, BUFFER);
	MUST(ndx_memory_register(e.adapter, e.buffer, BUFFER, NDX_REMOTE_READ | NDX_REMOTE_WRITE | NDX_BASE, &e.info, &e.memory));
	return e;
}

static inline void close_end(struct end *e) {
	if (e->connector)
		MUST(ndx_connector_close(e->connector));
	MUST(ndx_qp_close(e->qp));
	MUST(ndx_cq_close(e->cq));
	MUST(ndx_memory_close(e->memory));
	MUST(ndx_event_queue_close(e->events));
	MUST(ndx_adapter_close(e->adapter));
	free(e->buffer);
}

static inline struct ndx_event event_of(struct end *e, uint32_t type) {
	struct ndx_event event;
	int32_t n = ndx_event_queue_read(e->events, &event, PATIENCE_MS);
	CHECK(n == 1 && event.type == type, "%d events, type %u instead of %u: %s: %s", n, event.type, type, ndx_status_name(event.status), event.text);
	return event;
}

static inline struct ndx_connect_params params_of(const void *data, uint32_t n) {
	return (struct ndx_connect_params){.size = sizeof(struct ndx_connect_params),
		.inbound_reads = 8,
		.outbound_reads = 8,
		.private_data = data,
		.private_length = n};
}

// connect_ends connects two ends; the first one is active.
static inline void connect_ends(struct end *a, struct end *b, const char *ip, uint16_t port) {
	struct sockaddr_in at = address(ip, port);
	struct ndx_connect_params p = params_of("hello", 5), answer = params_of("welcome", 7);
	ndx_listener listener;
	MUST(ndx_listen(b->adapter, (struct sockaddr *)&at, 4, b->events, 11, &listener));
	MUST(ndx_connector_create(a->adapter, a->events, 10, &a->connector));
	MUST(ndx_connect(a->connector, a->qp, (struct sockaddr *)&at, &p));
	struct ndx_event request = event_of(b, NDX_EVENT_REQUEST);
	CHECK(request.cookie == 11 && request.private_length == 5 && memcmp(request.private_data, "hello", 5) == 0, "a request lacks something");
	CHECK(((struct sockaddr_in *)&request.local)->sin_port == htons(port), "a request came to another port");
	b->connector = request.connector;
	MUST(ndx_connector_events(b->connector, b->events, 12));
	MUST(ndx_accept(b->connector, b->qp, &answer));
	struct ndx_event connected = event_of(a, NDX_EVENT_CONNECTED);
	CHECK(connected.cookie == 10 && connected.private_length == 7 && memcmp(connected.private_data, "welcome", 7) == 0, "the answer lacks something");
	CHECK(connected.outbound_reads == 8, "%u Reads may be in flight", connected.outbound_reads);
	CHECK(event_of(b, NDX_EVENT_CONNECTED).cookie == 12, "the cookie did not change");
	MUST(ndx_listener_close(listener));
}

static inline struct ndx_sge part(struct end *e, uint32_t off, uint32_t n) {
	return (struct ndx_sge){.address = (uintptr_t)(e->buffer + off), .length = n, .token = e->info.token};
}

static inline void post_receive(struct end *e, uint64_t context, uint32_t off, uint32_t n) {
	struct ndx_sge sge = part(e, off, n);
	MUST(ndx_receive(e->qp, &(struct ndx_receive){.context = context, .sgl = &sge, .nsge = 1}, 1, NULL));
}

// request makes a request of one entry for n bytes from off of the own memory, and for the same bytes of the peer's memory.
static inline ndx_status post(struct end *e, const struct end *peer, uint32_t type, uint64_t context, uint32_t off, uint32_t n, uint32_t flags) {
	struct ndx_sge sge = part(e, off, n);
	struct ndx_request r = {.type = type, .context = context, .sgl = &sge, .nsge = 1, .flags = flags, .immediate = 0xfeedbeef,
		.peer_address = off, .peer_token = peer->info.token};
	return ndx_post(e->qp, &r, 1, NULL);
}

// result polls both ends until e has a result.
static inline struct ndx_result result(struct end *e, struct end *other) {
	struct ndx_result r, stray;
	for (int i = 0;; i++) {
		int32_t n = ndx_cq_poll(e->cq, &r, 1);
		CHECK(n >= 0, "poll: %s", ndx_status_name((ndx_status)n));
		if (n == 1)
			return r;
		CHECK(!other || ndx_cq_poll(other->cq, &stray, 0) == 0, "a poll for no results returned some");
		CHECK(i < 100000000, "no result comes");
	}
}

static inline void want(struct ndx_result r, uint64_t context, uint8_t type, ndx_status s) {
	CHECK(r.context == context && r.type == type && r.status == s, "result of %llu, type %u: %s", (unsigned long long)r.context, r.type,
		ndx_status_name(r.status));
}
