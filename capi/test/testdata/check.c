#include "check.h"

// A handle that never was, that is closed, or that names an object of another kind is refused by every function.
static void handles(void) {
	struct end e = open_end(host(1));
	struct ndx_result r;
	ndx_cq closed;
	MUST(ndx_cq_create(e.adapter, 1, &closed));
	MUST(ndx_cq_close(closed));
	ndx_cq again;
	MUST(ndx_cq_create(e.adapter, 1, &again));
	CHECK(again != closed, "a handle was used again");
	for (int i = 0; i < 4; i++) {
		uint64_t wrong = (uint64_t[]){0, closed, e.adapter, ~0ull}[i];
		WANT(ndx_cq_poll(wrong, &r, 1), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_cq_arm(wrong, NDX_NOTIFY_ANY), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_cq_wait(wrong, NDX_NOTIFY_ANY, 0), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_cq_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_post(wrong, NULL, 0, NULL), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_receive(wrong, NULL, 0, NULL), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_shared_receive(wrong, NULL, 0, NULL), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_qp_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_srq_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_memory_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_connector_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_connect(wrong, e.qp, NULL, NULL), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_listener_close(wrong), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_event_queue_read(wrong, NULL, 0), NDX_ERR_INVALID_HANDLE);
		WANT(ndx_event_queue_close(wrong), NDX_ERR_INVALID_HANDLE);
	}
	CHECK(strstr(ndx_last_error(), "ND_INVALID_HANDLE") && strstr(ndx_last_error(), "ndx_event_queue_close"), "the text of the failure");
	WANT(ndx_adapter_close(e.cq), NDX_ERR_INVALID_HANDLE);
	MUST(ndx_cq_close(again));
	close_end(&e);
}

static void limits(void) {
	struct end e = open_end(host(1));
	struct ndx_adapter_info info = {.size = sizeof info}, old = {.size = 8};
	MUST(ndx_adapter_query(e.adapter, &info));
	CHECK(info.max_private_data == NDX_MAX_PRIVATE_DATA && info.max_inline == 256 && strcmp(info.datapath, "udp") == 0 && info.reaches_itself,
		"info: %u %u %s %u", info.max_private_data, info.max_inline, info.datapath, info.reaches_itself);
	MUST(ndx_adapter_query(e.adapter, &old));
	CHECK(old.max_sge == info.max_sge && old.max_transfer == 0, "a shorter structure was overrun");
	ndx_cq cq;
	WANT(ndx_cq_create(e.adapter, 0, &cq), NDX_ERR_INVALID_PARAMETER);
	WANT(ndx_cq_create(e.adapter, info.max_cq_depth + 1, &cq), NDX_ERR_INVALID_PARAMETER);
	struct sockaddr_in a = address("203.0.113.77", 0);
	ndx_adapter none;
	WANT(ndx_adapter_open((struct sockaddr *)&a, NULL, &none), NDX_ERR_INVALID_ADDRESS);
	CHECK(strstr(ndx_last_error(), "203.0.113.77"), "the error names no address");
	WANT(ndx_adapter_open(NULL, NULL, &none), NDX_ERR_INVALID_ADDRESS);
	a = address(host(1), 0);
	WANT(ndx_adapter_open((struct sockaddr *)&a, &(struct ndx_adapter_config){.size = sizeof(struct ndx_adapter_config), .datapath = "pigeon"}, &none),
		NDX_ERR_INVALID_PARAMETER);
	close_end(&e);
}

// Messages and Writes with and without an immediate, inline and silent ones, Reads, and lists of them.
static void transfers(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	CHECK(a.info.base == 0, "the base is not the chosen one");
	WANT(post(&a, &b, NDX_SEND, 1, 0, 8, 0), NDX_ERR_CONNECTION_INVALID);
	connect_ends(&a, &b, host(2), PORT);
	memcpy(a.buffer, "ordinary immediat written.", 26);
	for (int i = 0; i < 4; i++)
		post_receive(&b, 100 + i, 1024 + 64 * i, 64);
	MUST(post(&a, &b, NDX_SEND, 1, 0, 8, 0));
	MUST(post(&a, &b, NDX_SEND, 2, 9, 8, NDX_IMMEDIATE | NDX_SOLICIT | NDX_INLINE));
	MUST(post(&a, &b, NDX_WRITE, 3, 18, 8, NDX_IMMEDIATE));
	MUST(post(&a, &b, NDX_SEND, 4, 0, 0, NDX_SILENT));
	struct ndx_result r[4];
	for (int i = 0; i < 4; i++) {
		want(r[i] = result(&b, &a), 100 + i, NDX_RECEIVE, NDX_SUCCESS);
		CHECK(r[i].qp_context == 5, "the context of the queue pair is %llu", (unsigned long long)r[i].qp_context);
	}
	CHECK(r[0].bytes == 8 && r[0].flags == 0 && memcmp(b.buffer + 1024, "ordinary", 8) == 0, "a message");
	CHECK(r[1].bytes == 8 && r[1].flags == (NDX_HAS_IMMEDIATE | NDX_WAS_SOLICITED) && r[1].immediate == 0xfeedbeef, "a message with immediate");
	CHECK(r[2].bytes == 0 && r[2].flags == (NDX_HAS_IMMEDIATE | NDX_WAS_SOLICITED) && memcmp(b.buffer + 18, "written.", 8) == 0, "a Write");
	CHECK(r[3].bytes == 0 && r[3].flags == 0, "an empty message");
	want(result(&a, &b), 1, NDX_SEND, NDX_SUCCESS);
	want(result(&a, &b), 2, NDX_SEND, NDX_SUCCESS);
	want(result(&a, &b), 3, NDX_WRITE, NDX_SUCCESS);
	memcpy(b.buffer + 512, "remote", 6);
	MUST(post(&a, &b, NDX_READ, 5, 512, 6, 0));
	want(result(&a, &b), 5, NDX_READ, NDX_SUCCESS);
	CHECK(memcmp(a.buffer + 512, "remote", 6) == 0, "a Read");

	// A list stops at the first request that fails, and starts those before it.
	struct ndx_sge sge = part(&a, 0, 8);
	struct ndx_request list[3] = {{.type = NDX_WRITE, .context = 6, .sgl = &sge, .nsge = 1, .peer_address = 64, .peer_token = b.info.token},
		{.type = NDX_READ, .flags = NDX_INLINE}, {.type = NDX_SEND}};
	uint32_t posted = 77;
	WANT(ndx_post(a.qp, list, 3, &posted), NDX_ERR_INVALID_PARAMETER);
	CHECK(posted == 1, "%u requests were posted", posted);
	want(result(&a, &b), 6, NDX_WRITE, NDX_SUCCESS);
	list[1] = (struct ndx_request){.type = 17};
	WANT(ndx_post(a.qp, list + 1, 1, &posted), NDX_ERR_INVALID_PARAMETER);
	list[1] = (struct ndx_request){.type = NDX_SEND, .sgl = &sge, .nsge = 17};
	WANT(ndx_post(a.qp, list + 1, 1, &posted), NDX_ERR_DATA_OVERRUN);
	struct ndx_sge wild = {.address = UINT64_MAX - 4, .length = 8, .token = a.info.token}, nowhere = {.length = 8};
	list[1] = (struct ndx_request){.type = NDX_SEND, .sgl = &wild, .nsge = 1};
	WANT(ndx_post(a.qp, list + 1, 1, NULL), NDX_ERR_INVALID_PARAMETER);
	list[1].sgl = &nowhere;
	WANT(ndx_post(a.qp, list + 1, 1, NULL), NDX_ERR_INVALID_PARAMETER);
	list[1].sgl = NULL;
	WANT(ndx_post(a.qp, list + 1, 1, NULL), NDX_ERR_INVALID_PARAMETER);

	MUST(ndx_disconnect(a.connector));
	CHECK(event_of(&b, NDX_EVENT_SHUTDOWN).status == NDX_SUCCESS, "the peer was lost");
	MUST(ndx_disconnect(b.connector));
	CHECK(event_of(&a, NDX_EVENT_DISCONNECTED).status == NDX_SUCCESS, "the end failed");
	event_of(&b, NDX_EVENT_DISCONNECTED);
	struct ndx_event extra;
	CHECK(ndx_event_queue_read(a.events, &extra, 0) == 0 && ndx_event_queue_read(b.events, &extra, 0) == 0, "event %u too many", extra.type);
	close_end(&a);
	close_end(&b);
}

// A full queue says so, a Write with immediate needs two entries, and an overrun completion queue fails.
static void full(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	connect_ends(&a, &b, host(2), PORT);
	for (int i = 0; i < DEPTH - 1; i++)
		MUST(post(&a, &b, NDX_WRITE, i, 0, 1, NDX_DEFER));
	WANT(post(&a, &b, NDX_WRITE, 90, 0, 1, NDX_IMMEDIATE), NDX_ERR_NO_MORE_ENTRIES);
	for (int i = 0; i < DEPTH - 1; i++)
		want(result(&a, &b), i, NDX_WRITE, NDX_SUCCESS);
	for (int i = 0; i < DEPTH; i++)
		post_receive(&b, i, 0, 1);
	WANT(ndx_receive(b.qp, &(struct ndx_receive){.context = 91}, 1, NULL), NDX_ERR_NO_MORE_ENTRIES);
	MUST(ndx_qp_flush(b.qp));
	for (int i = 0; i < DEPTH; i++)
		want(result(&b, NULL), i, NDX_RECEIVE, NDX_ERR_CANCELED);
	ndx_cq small;
	MUST(ndx_cq_create(b.adapter, 1, &small));
	struct ndx_qp_config c = {.size = sizeof c, .receive_cq = small, .initiator_cq = small, .receive_depth = DEPTH};
	ndx_qp qp;
	MUST(ndx_qp_create(b.adapter, &c, &qp));
	for (int i = 0; i < DEPTH; i++)
		MUST(ndx_receive(qp, &(struct ndx_receive){.context = i}, 1, NULL));
	MUST(ndx_qp_close(qp));
	struct ndx_result r[DEPTH];
	CHECK(ndx_cq_poll(small, r, DEPTH) == 1, "the queue has more results than its depth");
	WANT(ndx_cq_poll(small, r, DEPTH), NDX_ERR_BUFFER_OVERFLOW);
	WANT(ndx_cq_wait(small, NDX_NOTIFY_ANY, -1), NDX_ERR_BUFFER_OVERFLOW);
	MUST(ndx_cq_close(small));
	close_end(&a);
	close_end(&b);
}

// One queue of receives serves two queue pairs, and results say which.
static void shared(void) {
	struct end a = open_end(host(1)), a2 = open_end(host(3)), b = open_end(host(2));
	ndx_srq srq;
	MUST(ndx_srq_create(b.adapter, 4, 1, &srq));
	MUST(ndx_qp_close(b.qp));
	b.qp = queue_pair(&b, srq, 1);
	connect_ends(&a, &b, host(2), PORT);
	ndx_qp first = b.qp;
	ndx_connector connector = b.connector;
	b.qp = queue_pair(&b, srq, 2);
	connect_ends(&a2, &b, host(2), PORT + 1);
	for (int i = 0; i < 4; i++) {
		struct ndx_sge sge = part(&b, 64 * i, 64);
		MUST(ndx_shared_receive(srq, &(struct ndx_receive){.context = 50 + i, .sgl = &sge, .nsge = 1}, 1, NULL));
	}
	WANT(ndx_shared_receive(srq, &(struct ndx_receive){.context = 60}, 1, NULL), NDX_ERR_NO_MORE_ENTRIES);
	MUST(post(&a, &b, NDX_SEND, 1, 0, 8, 0));
	CHECK(result(&b, &a).qp_context == 1, "a message of the first queue pair");
	MUST(post(&a2, &b, NDX_SEND, 1, 0, 8, 0));
	CHECK(result(&b, &a2).qp_context == 2, "a message of the second queue pair");
	MUST(ndx_connector_close(connector));
	MUST(ndx_qp_close(first));
	close_end(&a);
	close_end(&a2);
	close_end(&b);
	WANT(ndx_shared_receive(srq, &(struct ndx_receive){.context = 60}, 1, NULL), NDX_ERR_DEVICE_REMOVED);
	MUST(ndx_srq_close(srq));
}

static void *wake_later(void *cq) {
	usleep(20000);
	MUST(ndx_cq_wake(*(ndx_cq *)cq));
	return NULL;
}

// The three ways to sleep until a result comes, and what ends them without one.
static void sleeping(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	connect_ends(&a, &b, host(2), PORT);
	struct ndx_result r;
	struct pollfd p = {.events = POLLIN};
	MUST(ndx_cq_descriptor(b.cq, &p.fd));
	for (int i = 0; i < 20; i++) {
		post_receive(&b, i, 0, 64);
		int32_t armed = ndx_cq_arm(b.cq, i % 2 ? NDX_NOTIFY_ANY : NDX_NOTIFY_SOLICITED);
		CHECK(armed == 0 && poll(&p, 1, 0) == 0, "round %d: readable before a result: %d", i, armed);
		MUST(post(&a, &b, NDX_SEND, i, 0, 8, NDX_SILENT | NDX_SOLICIT));
		CHECK(poll(&p, 1, PATIENCE_MS) == 1, "round %d: the descriptor stays silent", i);
		CHECK(ndx_cq_poll(b.cq, &r, 1) == 1 && r.context == (uint64_t)i, "round %d: the descriptor woke for nothing", i);
	}
	post_receive(&b, 70, 0, 64);
	MUST(post(&a, &b, NDX_SEND, 70, 0, 8, NDX_SILENT));
	CHECK(ndx_cq_wait(b.cq, NDX_NOTIFY_ANY, PATIENCE_MS) == 1, "no result to wait for");
	CHECK(ndx_cq_arm(b.cq, NDX_NOTIFY_ANY) == 1, "arming a queue with a result");
	CHECK(ndx_cq_poll(b.cq, &r, 1) == 1, "the result is not there");
	CHECK(ndx_cq_wait(b.cq, NDX_NOTIFY_ANY, 10) == 0, "a result without a message");
	pthread_t waker;
	pthread_create(&waker, NULL, wake_later, &b.cq);
	CHECK(ndx_cq_wait(b.cq, NDX_NOTIFY_ANY, -1) == 0, "a result without a message");
	pthread_join(waker, NULL);
	MUST(ndx_cq_wake(b.cq));
	CHECK(poll(&p, 1, 0) == 1, "ndx_cq_wake leaves the descriptor silent");
	CHECK(ndx_cq_wait(b.cq, NDX_NOTIFY_ANY, -1) == 0, "ndx_cq_wake before the wait was lost");
	WANT(ndx_cq_arm(b.cq, 3), NDX_ERR_INVALID_PARAMETER);
	CHECK(ndx_cq_arm(b.cq, NDX_NOTIFY_ANY) == 0, "armed");
	MUST(ndx_adapter_close(b.adapter));
	CHECK(poll(&p, 1, PATIENCE_MS) == 1, "the end of the adapter wakes nobody");
	WANT(ndx_cq_wait(b.cq, NDX_NOTIFY_ANY, -1), NDX_ERR_DEVICE_REMOVED);
	exit(0);
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(void);
	} checks[] = {{"handles", handles}, {"limits", limits}, {"transfers", transfers}, {"full", full}, {"shared", shared}, {"sleeping", sleeping}};
	for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
		if (strcmp(argv[1], checks[i].name) == 0) {
			checks[i].run();
			return 0;
		}
	fprintf(stderr, "no such check\n");
	return 2;
}
