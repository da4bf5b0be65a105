// Two programs in one that show how to use libndxdp: a ping-pong, and a store of numbers that clients read without the server's help.
//
//	example server ADDRESS PORT            serves one client and ends
//	example client ADDRESS SERVER PORT     ROUNDS ping-pongs of SIZE bytes, and then Reads of the store
//
// ADDRESS is the own address, PORT an ND port of the server. See the Makefile target capi for how to build the library, and:
//
//	gcc example.c $(pkg-config --cflags --libs ndxdp)
#include <arpa/inet.h>
#include <ndxdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	SIZE = 64,     // bytes of a message
	DEPTH = 16,    // requests of each direction
	ENTRIES = 256, // numbers in the store
};

// What the server tells its clients about the store, in network byte order.
struct advertisement {
	uint64_t address;
	uint32_t token;
};

// Everything that one end of a connection needs.
struct end {
	ndx_adapter adapter;
	ndx_event_queue events;
	ndx_cq cq;
	ndx_qp qp;
	unsigned char buffer[2][SIZE]; // one to send, one to receive
	ndx_memory memory;
	uint32_t token;
};

static void must(ndx_status s) {
	if (ndx_failed(s)) {
		fprintf(stderr, "example: %s\n", ndx_last_error());
		exit(1);
	}
}

static struct sockaddr_in at(const char *address, const char *port) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	if (inet_pton(AF_INET, address, &a.sin_addr) != 1) {
		fprintf(stderr, "example: %s is not an IPv4 address\n", address);
		exit(1);
	}
	return a;
}

static void open_end(struct end *e, const char *address) {
	struct sockaddr_in a = at(address, "0");
	must(ndx_adapter_open((struct sockaddr *)&a, NULL, &e->adapter));
	must(ndx_event_queue_create(&e->events));
	must(ndx_cq_create(e->adapter, 2 * DEPTH, &e->cq));
	must(ndx_qp_create(e->adapter,
		&(struct ndx_qp_config){.size = sizeof(struct ndx_qp_config),
			.receive_cq = e->cq,
			.initiator_cq = e->cq,
			.receive_depth = DEPTH,
			.initiator_depth = DEPTH,
			.receive_sge = 1,
			.initiator_sge = 1,
			.inline_size = SIZE},
		&e->qp));
	struct ndx_memory_info info = {0};
	must(ndx_memory_register(e->adapter, e->buffer, sizeof e->buffer, NDX_LOCAL_WRITE, &info, &e->memory));
	e->token = info.token;
}

static void close_end(struct end *e) {
	must(ndx_qp_close(e->qp));
	must(ndx_cq_close(e->cq));
	must(ndx_memory_close(e->memory));
	must(ndx_event_queue_close(e->events));
	must(ndx_adapter_close(e->adapter));
}

// next_event waits for the next event, which must be of a type.
static struct ndx_event next_event(struct end *e, uint32_t type) {
	struct ndx_event event;
	if (ndx_event_queue_read(e->events, &event, 10000) != 1) {
		fprintf(stderr, "example: no event of type %u in 10 s\n", type);
		exit(1);
	}
	if (event.type != type) {
		fprintf(stderr, "example: event %u instead of %u: %s: %s\n", event.type, type, ndx_status_text(event.status), event.text);
		exit(1);
	}
	return event;
}

// next_result polls for the next result.
static struct ndx_result next_result(struct end *e) {
	struct ndx_result r;
	int32_t n;
	while ((n = ndx_cq_poll(e->cq, &r, 1)) == 0)
		;
	must(n < 0 ? (ndx_status)n : NDX_SUCCESS);
	if (ndx_failed(r.status)) {
		struct ndx_event why = {0}; // if the connection has ended, an event has the cause
		ndx_event_queue_read(e->events, &why, 1000);
		fprintf(stderr, "example: a request failed: %s: %s\n", ndx_status_text(r.status), why.text);
		exit(1);
	}
	return r;
}

static struct ndx_sge entry(struct end *e, unsigned char *p, uint32_t n) {
	return (struct ndx_sge){.address = (uintptr_t)p, .length = n, .token = e->token};
}

static void post_receive(struct end *e) {
	struct ndx_sge sge = entry(e, e->buffer[1], SIZE);
	must(ndx_receive(e->qp, &(struct ndx_receive){.sgl = &sge, .nsge = 1}, 1, NULL));
}

static void send_buffer(struct end *e) {
	struct ndx_sge sge = entry(e, e->buffer[0], SIZE);
	must(ndx_post(e->qp, &(struct ndx_request){.type = NDX_SEND, .flags = NDX_INLINE | NDX_SILENT, .sgl = &sge, .nsge = 1}, 1, NULL));
}

// expect waits for the message and compares it.
static void expect(struct end *e, unsigned char with) {
	while (next_result(e).type != NDX_RECEIVE)
		;
	for (int i = 0; i < SIZE; i++)
		if (e->buffer[1][i] != with) {
			fprintf(stderr, "example: byte %d of a message is %u, not %u\n", i, e->buffer[1][i], with);
			exit(1);
		}
}

static int server(const char *address, const char *port) {
	static uint64_t store[ENTRIES];
	struct end e = {0};
	open_end(&e, address);
	for (int i = 0; i < ENTRIES; i++)
		store[i] = (uint64_t)i * i;
	// Base 0: clients name a number by its place in the store.
	struct ndx_memory_info info = {.base = 0};
	ndx_memory memory;
	must(ndx_memory_register(e.adapter, store, sizeof store, NDX_REMOTE_READ | NDX_BASE, &info, &memory));
	struct advertisement told = {.address = htobe64(info.base), .token = htonl(info.token)};

	struct sockaddr_in a = at(address, port);
	ndx_listener listener;
	must(ndx_listen(e.adapter, (struct sockaddr *)&a, 1, e.events, 0, &listener));
	printf("listening\n");
	fflush(stdout);
	struct ndx_event request = next_event(&e, NDX_EVENT_REQUEST);
	ndx_connector connector = request.connector;
	post_receive(&e);
	must(ndx_accept(connector, e.qp,
		&(struct ndx_connect_params){.size = sizeof(struct ndx_connect_params),
			.inbound_reads = DEPTH,
			.private_data = &told,
			.private_length = sizeof told}));
	uint32_t rounds;
	memcpy(&rounds, request.private_data, sizeof rounds);
	rounds = ntohl(rounds);
	next_event(&e, NDX_EVENT_CONNECTED);
	for (uint32_t i = 0; i < rounds; i++) {
		expect(&e, (unsigned char)i);
		post_receive(&e);
		memset(e.buffer[0], (unsigned char)~i, SIZE);
		send_buffer(&e);
	}
	next_event(&e, NDX_EVENT_SHUTDOWN);
	must(ndx_disconnect(connector));
	next_event(&e, NDX_EVENT_DISCONNECTED);
	must(ndx_connector_close(connector));
	must(ndx_listener_close(listener));
	must(ndx_memory_close(memory));
	close_end(&e);
	return 0;
}

// read_store reads numbers of the store, and checks them.
static void read_store(struct end *e, struct advertisement told) {
	for (uint64_t i = 0; i < ENTRIES; i += 17) {
		struct ndx_sge sge = entry(e, e->buffer[0], sizeof(uint64_t));
		must(ndx_post(e->qp,
			&(struct ndx_request){.type = NDX_READ,
				.sgl = &sge,
				.nsge = 1,
				.peer_address = be64toh(told.address) + i * sizeof(uint64_t),
				.peer_token = ntohl(told.token)},
			1, NULL));
		while (next_result(e).type != NDX_READ)
			;
		uint64_t got;
		memcpy(&got, e->buffer[0], sizeof got);
		if (got != i * i) {
			fprintf(stderr, "example: entry %llu of the store is %llu\n", (unsigned long long)i, (unsigned long long)got);
			exit(1);
		}
	}
}

static int client(const char *address, const char *peer, const char *port, uint32_t rounds) {
	struct end e = {0};
	open_end(&e, address);
	ndx_connector connector;
	must(ndx_connector_create(e.adapter, e.events, 0, &connector));
	struct sockaddr_in to = at(peer, port);
	uint32_t told = htonl(rounds);
	must(ndx_connect(connector, e.qp, (struct sockaddr *)&to,
		&(struct ndx_connect_params){.size = sizeof(struct ndx_connect_params),
			.outbound_reads = DEPTH,
			.private_data = &told,
			.private_length = sizeof told}));
	struct ndx_event connected = next_event(&e, NDX_EVENT_CONNECTED);
	struct advertisement store;
	memcpy(&store, connected.private_data, sizeof store);

	struct timespec from, until;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (uint32_t i = 0; i < rounds; i++) {
		post_receive(&e);
		memset(e.buffer[0], (unsigned char)i, SIZE);
		send_buffer(&e);
		expect(&e, (unsigned char)~i);
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	double us = (double)(until.tv_sec - from.tv_sec) * 1e6 + (double)(until.tv_nsec - from.tv_nsec) / 1e3;
	printf("%u rounds of %d bytes: %.2f us one way\n", rounds, SIZE, us / rounds / 2);
	read_store(&e, store);
	printf("the store is right\n");
	must(ndx_disconnect(connector));
	next_event(&e, NDX_EVENT_DISCONNECTED);
	must(ndx_connector_close(connector));
	close_end(&e);
	return 0;
}

int main(int argc, char **argv) {
	if (ndx_abi() != NDX_ABI) {
		fprintf(stderr, "example: the library has ABI %u, this program %d\n", ndx_abi(), NDX_ABI);
		return 1;
	}
	if (argc == 4 && strcmp(argv[1], "server") == 0)
		return server(argv[2], argv[3]);
	if (argc == 6 && strcmp(argv[1], "client") == 0)
		return client(argv[2], argv[3], argv[4], (uint32_t)atoi(argv[5]));
	fprintf(stderr, "usage: example server ADDRESS PORT | example client ADDRESS SERVER PORT ROUNDS\n");
	return 2;
}
