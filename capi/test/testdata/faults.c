#include "check.h"

// In a child of fork, every call says so and none blocks. The parent goes on.
static void forked(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	connect_ends(&a, &b, host(2), PORT);
	pid_t child = fork();
	if (child == 0) {
		struct ndx_result r;
		struct ndx_event e;
		ndx_adapter adapter;
		struct sockaddr_in at = address(host(1), 0);
		WANT(ndx_adapter_open((struct sockaddr *)&at, NULL, &adapter), NDX_ERR_FORKED);
		WANT(ndx_cq_poll(a.cq, &r, 1), NDX_ERR_FORKED);
		WANT(ndx_cq_wait(a.cq, NDX_NOTIFY_ANY, -1), NDX_ERR_FORKED);
		WANT(ndx_event_queue_read(a.events, &e, -1), NDX_ERR_FORKED);
		WANT(post(&a, &b, NDX_WRITE, 1, 0, 8, 0), NDX_ERR_FORKED);
		WANT(ndx_qp_close(a.qp), NDX_ERR_FORKED);
		CHECK(strcmp(ndx_status_name(NDX_ERR_FORKED), "NDX_FORKED") == 0 && ndx_abi() == NDX_ABI, "names in a child");
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
	// fork and exec in a loop, under traffic.
	for (int i = 0; i < 5; i++) {
		child = fork();
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		for (int k = 0; k < 10; k++) {
			MUST(post(&a, &b, NDX_WRITE, k, 0, 64, 0));
			want(result(&a, &b), k, NDX_WRITE, NDX_SUCCESS);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0, "the program that exec began ended with %#x", status);
	}
	close_end(&a);
	close_end(&b);
}

static volatile sig_atomic_t ticks;
static pthread_t poller;
static volatile int strangers;

// tick uses about 10 KiB of stack, as a handler that formats a message does.
static void tick(int signal) {
	volatile unsigned char use[10 << 10];
	for (size_t i = 0; i < sizeof use; i += 64)
		use[i] = (unsigned char)signal;
	if (!pthread_equal(pthread_self(), poller))
		strangers++;
	ticks++;
}

// A handler without SA_ONSTACK runs a thousand times a second during a ping-pong, on threads of the program alone.
static void signals(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	connect_ends(&a, &b, host(2), PORT);
	poller = pthread_self();
	struct sigaction act = {.sa_handler = tick, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGALRM, &act, NULL) == 0, "sigaction");
	struct itimerval every = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}}, never = {0};
	CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer");
	for (int i = 0; ticks < 200; i++) {
		post_receive(&b, i, 0, 64);
		MUST(post(&a, &b, NDX_SEND, i, 0, 64, 0));
		want(result(&b, &a), i, NDX_RECEIVE, NDX_SUCCESS);
		want(result(&a, &b), i, NDX_SEND, NDX_SUCCESS);
		CHECK(i < 10000000, "no signals");
	}
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(strangers == 0, "%d of %d signals came to threads of the library", strangers, (int)ticks);
	close_end(&a);
	close_end(&b);
}

// Registrations of every kind of memory, and of memory that does not suffice.
static void registrations(void) {
	ndx_adapter adapter = adapter_at(host(1));
	struct ndx_memory_info info = {0};
	ndx_memory memory;
	unsigned char stack[100];
	static unsigned char data[100];
	unsigned char *pages = mmap(NULL, 3 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mprotect(pages + (1 << 12), 1 << 12, PROT_READ) == 0 && munmap(pages + (2 << 12), 1 << 12) == 0, "mprotect");
	struct {
		void *at;
		uint64_t n;
		uint32_t flags;
		ndx_status want;
	} cases[] = {{stack, sizeof stack, NDX_REMOTE_WRITE, 0}, {data, sizeof data, NDX_LOCAL_WRITE, 0}, {pages, 1 << 12, NDX_LOCAL_WRITE, 0},
		{pages, 2 << 12, NDX_REMOTE_READ, 0}, {pages, 2 << 12, NDX_LOCAL_WRITE, NDX_ERR_ACCESS_VIOLATION},
		{pages, 3 << 12, 0, NDX_ERR_ACCESS_VIOLATION}, {"constant", 8, NDX_REMOTE_WRITE, NDX_ERR_ACCESS_VIOLATION}, {"constant", 8, 0, 0},
		{NULL, 8, 0, NDX_ERR_INVALID_PARAMETER}, {(void *)(UINTPTR_MAX - 4), 8, 0, NDX_ERR_INVALID_PARAMETER},
		{stack, 1ull << 60, 0, NDX_ERR_INVALID_PARAMETER}, {stack, 8, 0x4000, NDX_ERR_INVALID_PARAMETER}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		ndx_status s = ndx_memory_register(adapter, cases[i].at, cases[i].n, cases[i].flags, &info, &memory);
		CHECK(s == cases[i].want, "case %zu: %s", i, ndx_status_name(s));
		if (s == NDX_SUCCESS) {
			CHECK(info.address == cases[i].at && info.length == cases[i].n && info.base >= 1ull << 40, "case %zu: base %llx", i, (unsigned long long)info.base);
			MUST(ndx_memory_close(memory));
		}
	}
	info.base = UINT64_MAX - 4;
	WANT(ndx_memory_register(adapter, data, 8, NDX_BASE, &info, &memory), NDX_ERR_INVALID_PARAMETER);
	MUST(ndx_memory_allocate(adapter, 100000, NDX_LOCAL_WRITE, &info, &memory));
	memset(info.address, 1, info.length);
	CHECK(info.length == 100000, "%llu bytes were allocated", (unsigned long long)info.length);
	MUST(ndx_memory_close(memory));
	ndx_adapter_close(adapter);
}

// An adapter has 65,536 regions and not one more. Closing one makes room.
static void many(void) {
	enum { REGIONS = 1 << 16 };
	static ndx_memory regions[REGIONS + 1];
	static unsigned char data[REGIONS + 1];
	ndx_adapter adapter = adapter_at(host(1));
	struct ndx_memory_info info = {0};
	for (int i = 0; i < REGIONS; i++)
		MUST(ndx_memory_register(adapter, data + i, 1, 0, &info, &regions[i]));
	WANT(ndx_memory_register(adapter, data, 1, 0, &info, &regions[REGIONS]), NDX_ERR_INSUFFICIENT_RESOURCES);
	MUST(ndx_memory_close(regions[7]));
	MUST(ndx_memory_register(adapter, data, 1, 0, &info, &regions[7]));
	for (int i = 0; i < REGIONS; i++)
		MUST(ndx_memory_close(regions[i]));
	MUST(ndx_adapter_close(adapter));
}

// Requests on memory that was closed or unmapped end with an access violation, and the connection with them; nothing crashes.
static void lost(void) {
	for (int unmap = 0; unmap < 2; unmap++) {
		struct end a = open_end(host(1)), b = open_end(host(2));
		connect_ends(&a, &b, host(2), PORT);
		unsigned char *pages = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ndx_memory_info info = {0};
		ndx_memory memory;
		MUST(ndx_memory_register(b.adapter, pages, 1 << 16, NDX_REMOTE_WRITE | NDX_BASE, &info, &memory));
		if (unmap)
			munmap(pages, 1 << 16);
		else
			MUST(ndx_memory_close(memory));
		struct ndx_sge sge = part(&a, 0, 64);
		struct ndx_request r = {.type = NDX_WRITE, .context = 3, .sgl = &sge, .nsge = 1, .peer_token = info.token};
		MUST(ndx_post(a.qp, &r, 1, NULL));
		want(result(&a, &b), 3, NDX_WRITE, NDX_ERR_ACCESS_VIOLATION);
		struct ndx_event e = event_of(&a, NDX_EVENT_SHUTDOWN);
		CHECK(e.status == NDX_ERR_CONNECTION_ABORTED && e.text[0], "the end is %s", ndx_status_name(e.status));
		event_of(&b, NDX_EVENT_SHUTDOWN);
		if (unmap)
			MUST(ndx_memory_close(memory));
		close_end(&a);
		close_end(&b);
	}
}

// Attempts that fail: no listener, rejected with data, a closed listener with a request that nobody read, a closed event queue.
static void refused(void) {
	struct end a = open_end(host(1)), b = open_end(host(2));
	struct sockaddr_in at = address(host(2), PORT), v6 = {.sin_family = AF_INET6};
	MUST(ndx_connector_create(a.adapter, a.events, 1, &a.connector));
	WANT(ndx_connect(a.connector, a.qp, (struct sockaddr *)&v6, NULL), NDX_ERR_BAD_NETWORK_NAME);
	WANT(ndx_connect(a.connector, a.qp, NULL, NULL), NDX_ERR_BAD_NETWORK_NAME);
	unsigned char data[NDX_MAX_PRIVATE_DATA + 1] = {9, 8, 7};
	struct ndx_connect_params p = params_of(data, sizeof data);
	WANT(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, &p), NDX_ERR_INVALID_BUFFER_SIZE);
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, NULL));
	struct ndx_event e = event_of(&a, NDX_EVENT_FAILED);
	CHECK(e.status == NDX_ERR_CONNECTION_REFUSED && e.private_length == 0 && strstr(e.text, host(2)), "no listener: %s", e.text);

	ndx_listener listener, again;
	MUST(ndx_listen(b.adapter, (struct sockaddr *)&at, 2, b.events, 2, &listener));
	WANT(ndx_listen(b.adapter, (struct sockaddr *)&at, 2, b.events, 2, &again), NDX_ERR_SHARING_VIOLATION);
	CHECK(strstr(ndx_last_error(), "another listener"), "who has the port");
	p = params_of(data, NDX_MAX_PRIVATE_DATA);
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, &p));
	WANT(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, &p), NDX_ERR_CONNECTION_ACTIVE);
	e = event_of(&b, NDX_EVENT_REQUEST);
	CHECK(e.private_length == NDX_MAX_PRIVATE_DATA && memcmp(e.private_data, data, NDX_MAX_PRIVATE_DATA) == 0, "%u bytes came", e.private_length);
	MUST(ndx_reject(e.connector, data, NDX_MAX_PRIVATE_DATA));
	MUST(ndx_connector_close(e.connector));
	e = event_of(&a, NDX_EVENT_FAILED);
	CHECK(e.status == NDX_ERR_CONNECTION_REFUSED && e.private_length == NDX_MAX_PRIVATE_DATA, "rejected with %u bytes", e.private_length);

	struct pollfd wait = {.events = POLLIN};
	MUST(ndx_event_queue_descriptor(b.events, &wait.fd));
	CHECK(poll(&wait, 1, 0) == 0, "the descriptor is readable without events");
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, NULL));
	CHECK(poll(&wait, 1, PATIENCE_MS) == 1, "no request comes");
	MUST(ndx_listener_close(listener));
	CHECK(event_of(&a, NDX_EVENT_FAILED).status == NDX_ERR_CONNECTION_REFUSED && poll(&wait, 1, 0) == 0, "a closed listener");

	MUST(ndx_listen(b.adapter, (struct sockaddr *)&at, 2, b.events, 2, &listener));
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, NULL));
	CHECK(poll(&wait, 1, PATIENCE_MS) == 1, "no request comes");
	MUST(ndx_event_queue_close(b.events));
	CHECK(event_of(&a, NDX_EVENT_FAILED).status == NDX_ERR_CONNECTION_REFUSED, "a closed event queue");
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, NULL));
	CHECK(event_of(&a, NDX_EVENT_FAILED).status == NDX_ERR_CONNECTION_REFUSED, "a request for a closed event queue");
	MUST(ndx_listener_close(listener));
	MUST(ndx_event_queue_create(&b.events));
	close_end(&a);
	close_end(&b);
}

// The peer is killed in the middle: every request ends, and one event tells the end.
static void killed(void) {
	int ready[2], status;
	CHECK(pipe(ready) == 0, "pipe");
	pid_t peer = fork(); // before the library is used: the child is a program of its own after exec
	if (peer == 0) {
		dup2(ready[1], 1);
		execl("/proc/self/exe", "faults", "peer", NULL);
		_exit(1);
	}
	char byte;
	CHECK(read(ready[0], &byte, 1) == 1, "the peer did not start");
	struct end a = open_end(host(1));
	struct sockaddr_in at = address(host(2), PORT);
	MUST(ndx_connector_create(a.adapter, a.events, 1, &a.connector));
	MUST(ndx_connect(a.connector, a.qp, (struct sockaddr *)&at, NULL));
	struct ndx_event e = event_of(&a, NDX_EVENT_CONNECTED);
	for (int i = 0; i < DEPTH; i++)
		post_receive(&a, i, 0, 64);
	kill(peer, SIGKILL);
	waitpid(peer, &status, 0);
	MUST(post(&a, &a, NDX_SEND, 99, 0, 8, 0));
	for (int i = 0; i < DEPTH + 1; i++) {
		struct ndx_result r = result(&a, NULL);
		CHECK(ndx_failed(r.status), "a request succeeded without a peer");
	}
	e = event_of(&a, NDX_EVENT_SHUTDOWN);
	CHECK(e.status == NDX_ERR_CONNECTION_ABORTED && e.text[0], "the end is %s", ndx_status_name(e.status));
	CHECK(ndx_event_queue_read(a.events, &e, 0) == 0, "a second event");
	close_end(&a);
}

// peer accepts one connection and does nothing.
static void peer(void) {
	struct end b = open_end(host(2));
	struct sockaddr_in at = address(host(2), PORT);
	ndx_listener listener;
	MUST(ndx_listen(b.adapter, (struct sockaddr *)&at, 1, b.events, 0, &listener));
	CHECK(write(1, "!", 1) == 1, "write");
	MUST(ndx_accept(event_of(&b, NDX_EVENT_REQUEST).connector, b.qp, NULL));
	for (;;)
		pause();
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(void);
	} checks[] = {{"forked", forked}, {"signals", signals}, {"registrations", registrations}, {"many", many}, {"lost", lost}, {"refused", refused},
		{"killed", killed}, {"peer", peer}};
	for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
		if (strcmp(argv[1], checks[i].name) == 0) {
			checks[i].run();
			return 0;
		}
	fprintf(stderr, "no such check\n");
	return 2;
}
