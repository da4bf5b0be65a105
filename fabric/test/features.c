/* features.c: what the provider offers beyond plain sends, each between two endpoints of one process. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "pair.h"

static void receive(struct side *s, size_t offset, size_t len, void *context)
{
	must(fi_recv(s->srx ? s->srx : s->ep, s->buf + offset, len, s->desc, 0, context));
}

static void data_with_send(void)
{
	struct pair p;
	struct fi_cq_data_entry entry;

	pair_open(&p, NULL);
	receive(&p.b, 0, 100, &p.b);
	strcpy((char *) p.a.buf, "message");
	must(fi_senddata(p.a.ep, p.a.buf, 8, p.a.desc, 0x12345678, 0, &p.a));
	entry = completion(p.b.rx);
	check(entry.op_context == &p.b && entry.len == 8 && entry.data == 0x12345678, "len %zu data %lx", entry.len, (long) entry.data);
	check(entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA), "flags %lx", (long) entry.flags);
	check(!strcmp((char *) p.b.buf, "message"), "other bytes");
	entry = completion(p.a.tx);
	check(entry.op_context == &p.a && entry.flags == (FI_SEND | FI_MSG), "flags %lx", (long) entry.flags);
	receive(&p.b, 0, 100, NULL);
	must(fi_injectdata(p.a.ep, p.a.buf, 0, 7, 0));
	entry = completion(p.b.rx);
	check(entry.data == 7 && entry.len == 0, "data %ld", (long) entry.data);
	pair_close(&p);
}

static void data_with_write(void)
{
	struct pair p;
	struct fi_cq_data_entry entry;

	pair_open(&p, NULL);
	receive(&p.b, 0, 100, &p.b);
	memset(p.a.buf, 3, 1000);
	must(fi_writedata(p.a.ep, p.a.buf, 1000, p.a.desc, 99, 0, at(&p.b, 500), fi_mr_key(p.b.mr), &p.a));
	entry = completion(p.b.rx);
	check(entry.op_context == &p.b && entry.data == 99, "data %ld", (long) entry.data);
	check(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), "flags %lx", (long) entry.flags);
	for (size_t i = 500; i < 1500; i++)
		check(p.b.buf[i] == 3, "byte %zu is %d", i, p.b.buf[i]);
	check(p.b.buf[499] == 0 && p.b.buf[1500] == 0, "bytes beside the write");
	entry = completion(p.a.tx);
	check(entry.flags == (FI_WRITE | FI_RMA), "flags %lx", (long) entry.flags);
	receive(&p.b, 0, 100, NULL);
	must(fi_inject_writedata(p.a.ep, "abc", 3, 5, 0, at(&p.b, 0), fi_mr_key(p.b.mr)));
	check(completion(p.b.rx).data == 5 && !memcmp(p.b.buf, "abc", 3), "injected write");
	pair_close(&p);
}

static void read_and_iov(void)
{
	struct pair p;
	struct iovec iov[8];
	void *desc[8];
	struct fi_rma_iov remote = {.len = 800};
	struct fi_msg_rma msg = {.msg_iov = iov, .desc = desc, .iov_count = 8, .rma_iov = &remote, .rma_iov_count = 1, .context = &p};

	pair_open(&p, NULL);
	remote.addr = at(&p.b, 10);
	remote.key = fi_mr_key(p.b.mr);
	for (size_t i = 0; i < 900; i++)
		p.b.buf[i] = (unsigned char) (i * 3);
	for (int i = 0; i < 8; i++) {
		iov[i] = (struct iovec){p.a.buf + i * 200, 100};
		desc[i] = p.a.desc;
	}
	must(fi_readmsg(p.a.ep, &msg, FI_COMPLETION));
	check(completion(p.a.tx).op_context == &p, "context");
	for (int i = 0; i < 800; i++)
		check(p.a.buf[i / 100 * 200 + i % 100] == (unsigned char) ((i + 10) * 3), "byte %d", i);
	msg.rma_iov_count = 2;
	check(fi_readmsg(p.a.ep, &msg, 0) == -FI_EINVAL, "two remote entries");
	pair_close(&p);
}

static void selective(void)
{
	struct options options = {.cq_flags = FI_SELECTIVE_COMPLETION};
	struct fi_cq_data_entry entry;
	struct iovec iov;
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
	struct pair p;

	pair_open(&p, &options);
	msg.desc = &p.a.desc;
	iov = (struct iovec){p.a.buf, 10};
	for (int i = 0; i < 3; i++)
		receive(&p.b, 0, 10, NULL);
	msg.context = &p.b;
	must(fi_sendmsg(p.a.ep, &msg, 0));
	must(fi_inject(p.a.ep, p.a.buf, 10, 0));
	msg.context = &p.a;
	must(fi_sendmsg(p.a.ep, &msg, FI_COMPLETION));
	entry = completion(p.a.tx);
	check(entry.op_context == &p.a, "a completion that was not asked for");
	check(fi_cq_read(p.b.rx, &entry, 1) == -FI_EAGAIN, "a completion of a receive that was not asked for");
	iov = (struct iovec){p.b.buf, 10};
	msg.desc = &p.b.desc;
	msg.context = &p.b;
	must(fi_recvmsg(p.b.ep, &msg, FI_COMPLETION));
	must(fi_inject(p.a.ep, p.a.buf, 10, 0));
	check(completion(p.b.rx).op_context == &p.b, "context");
	pair_close(&p);
}

static void counters(void)
{
	struct options options = {.counters = true};
	struct pair p;

	pair_open(&p, &options);
	for (int i = 0; i < 10; i++)
		receive(&p.b, 0, 10, &p.b);
	for (int i = 0; i < 9; i++)
		must(fi_send(p.a.ep, p.a.buf, 10, p.a.desc, 0, &p.a));
	must(fi_inject(p.a.ep, p.a.buf, 10, 0));
	must(fi_write(p.a.ep, p.a.buf, 10, p.a.desc, 0, at(&p.b, 0), fi_mr_key(p.b.mr), NULL));
	must(fi_read(p.a.ep, p.a.buf, 10, p.a.desc, 0, at(&p.b, 0), fi_mr_key(p.b.mr), NULL));
	must(fi_cntr_wait(p.b.received, 10, WAIT_MS));
	must(fi_cntr_wait(p.a.sent, 10, WAIT_MS));
	must(fi_cntr_wait(p.a.wrote, 1, WAIT_MS));
	must(fi_cntr_wait(p.a.read, 1, WAIT_MS));
	check(fi_cntr_wait(p.a.read, 2, 1) == -FI_ETIMEDOUT, "no time-out");
	for (int i = 0; i < 11; i++) /* nine sends, a Write, a Read: the injected message has no completion */
		completion(p.a.tx);
	check(fi_cq_read(p.a.tx, &(struct fi_cq_data_entry){0}, 1) == -FI_EAGAIN, "one more completion");
	pair_close(&p);
}

static void shared_receive(void)
{
	struct options options = {.shared_receive = true, .hints = usual_hints()};
	struct pair p;

	options.hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	pair_open(&p, &options);
	for (int i = 0; i < 20; i++)
		receive(&p.b, 0, 10, &p.b);
	for (int i = 0; i < 20; i++)
		must(fi_inject(p.a.ep, "0123456789", 10, 0));
	for (int i = 0; i < 20; i++)
		check(completion(p.b.rx).op_context == &p.b, "context");
	check(fi_recv(p.b.ep, p.b.buf, 10, p.b.desc, 0, NULL) < 0, "a receive at an endpoint that shares");
	pair_close(&p);
}

/* no_memory: a receive at NULL takes an empty message. */
static void no_memory(void)
{
	for (int shared = 0; shared < 2; shared++) {
		struct options options = {.shared_receive = shared};
		struct fi_cq_data_entry entry;
		struct pair p;

		pair_open(&p, &options);
		must(fi_recv(shared ? p.b.srx : p.b.ep, NULL, 256, NULL, 0, &p.b));
		must(fi_send(p.a.ep, NULL, 0, NULL, 0, &p.a));
		entry = completion(p.b.rx);
		check(entry.op_context == &p.b && entry.len == 0, "len %zu", entry.len);
		completion(p.a.tx);
		pair_close(&p);
	}
}

/* descriptors: an application sleeps in poll, and fi_trywait says when it may. */
static void descriptors(void)
{
	struct options options = {.cq = {.wait_obj = FI_WAIT_FD}};
	struct pollfd fd = {.events = POLLIN};
	struct fi_cq_data_entry entry;
	struct fid *fid;
	struct pair p;
	int ret;

	pair_open(&p, &options);
	fid = &p.b.rx->fid;
	must(fi_control(fid, FI_GETWAIT, &fd.fd));
	for (int i = 0; i < 100; i++) {
		receive(&p.b, 0, 10, &p.b);
		ret = fi_trywait(p.fabric, &fid, 1);
		check(ret == 0, "%d", ret);
		check(poll(&fd, 1, 0) == 0, "readable without a message");
		must(fi_inject(p.a.ep, "0123456789", 10, 0));
		while ((ret = (int) fi_cq_read(p.b.rx, &entry, 1)) == -FI_EAGAIN)
			if (!fi_trywait(p.fabric, &fid, 1))
				check(poll(&fd, 1, WAIT_MS) == 1, "no wake-up");
		check(ret == 1 && entry.len == 10, "%d", ret);
	}
	must(fi_inject(p.a.ep, "0123456789", 10, 0));
	receive(&p.b, 0, 10, &p.b);
	while (fi_trywait(p.fabric, &fid, 1) != -FI_EAGAIN)
		check(poll(&fd, 1, WAIT_MS) == 1, "no wake-up");
	completion(p.b.rx);
	pair_close(&p);
}

static void *signal_later(void *cq)
{
	usleep(20000); /* the other thread usually sleeps by then; the result does not depend on it */
	must(fi_cq_signal(cq));
	return NULL;
}

static void signals(void)
{
	struct pair p;
	pthread_t thread;
	struct fi_cq_data_entry entry;

	pair_open(&p, NULL);
	pthread_create(&thread, NULL, signal_later, p.a.rx);
	check(fi_cq_sread(p.a.rx, &entry, 1, NULL, -1) == -FI_EAGAIN, "the signal woke nobody");
	pthread_join(thread, NULL);
	pair_close(&p);
}

static void connection_data(void)
{
	struct fi_eq_cm_entry *entry = malloc(sizeof(*entry) + 512);
	unsigned char data[512];
	size_t limit = 0, len = sizeof(limit), n;
	struct sockaddr_storage peer;
	struct pair p;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char) (i * 7);
	pair_listen(&p, NULL);
	must(fi_getopt(&p.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &len));
	check(limit == sizeof(data), "%zu", limit);
	side_open(&p, &p.a, p.info);
	check(fi_connect(p.a.ep, &p.address, data, 513) == -FI_EINVAL, "too much data");
	must(fi_connect(p.a.ep, &p.address, data, sizeof(data)));
	n = expect_event(p.listening, FI_CONNREQ, entry, sizeof(*entry) + 512);
	check(n == sizeof(data) && !memcmp(entry->data, data, n), "%zu bytes", n);
	side_open(&p, &p.b, entry->info);
	fi_freeinfo(entry->info);
	must(fi_accept(p.b.ep, data + 100, 300));
	n = expect_event(p.a.eq, FI_CONNECTED, entry, sizeof(*entry) + 512);
	check(n == 300 && !memcmp(entry->data, data + 100, n), "%zu bytes", n);
	expect_event(p.b.eq, FI_CONNECTED, entry, sizeof(*entry) + 512);
	len = sizeof(peer);
	must(fi_getpeer(p.a.ep, &peer, &len));
	check(!memcmp(&peer, &p.address, len), "address of the peer");
	must(fi_shutdown(p.a.ep, 0));
	expect_event(p.b.eq, FI_SHUTDOWN, entry, sizeof(*entry));
	expect_event(p.a.eq, FI_SHUTDOWN, entry, sizeof(*entry));
	check(fi_eq_read(p.b.eq, &(uint32_t){0}, entry, sizeof(*entry), 0) == -FI_EAGAIN, "a second FI_SHUTDOWN");
	pair_close(&p);
	free(entry);
}

/* long_injects: the buffer of an injected message can be used again at once, whatever the length. Nobody reads the sender's queue meanwhile. */
static void long_injects(void)
{
	enum { LONG = 16 << 10 };
	struct pair p;
	struct iovec iov;
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = &p};
	struct fi_cq_data_entry entry;
	ssize_t ret;

	pair_open(&p, NULL);
	for (int i = 0; i < 100; i++) {
		receive(&p.b, 0, LONG, &p.b);
		memset(p.a.buf, i, LONG);
		while ((ret = fi_inject(p.a.ep, p.a.buf, LONG - i, 0)) == -FI_EAGAIN)
			;
		must(ret);
		memset(p.a.buf, ~i, LONG);
		entry = completion(p.b.rx);
		check(entry.len == LONG - (size_t) i && p.b.buf[0] == i && p.b.buf[entry.len - 1] == i, "message %d has %zu bytes", i, entry.len);
	}
	receive(&p.b, 0, LONG, &p.b);
	iov = (struct iovec){p.a.buf, LONG};
	while ((ret = fi_sendmsg(p.a.ep, &msg, FI_INJECT)) == -FI_EAGAIN)
		;
	must(ret);
	completion(p.b.rx);
	entry = completion(p.a.tx);
	check(entry.op_context == &p && entry.flags == (FI_SEND | FI_MSG), "flags %lx", (long) entry.flags);
	check(fi_cq_read(p.a.tx, &entry, 1) == -FI_EAGAIN, "an injected message has an entry");
	check(fi_inject(p.a.ep, p.a.buf, p.info->tx_attr->inject_size + 1, 0) == -FI_EMSGSIZE, "a message that is too long");
	pair_close(&p);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"data with a send", data_with_send},
	{"data with a write", data_with_write},
	{"long injected messages", long_injects},
	{"read into eight buffers", read_and_iov},
	{"selective completion", selective},
	{"counters", counters},
	{"shared receive context", shared_receive},
	{"receive without memory", no_memory},
	{"descriptors", descriptors},
	{"fi_cq_signal", signals},
	{"connection data", connection_data},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].run();
		printf("ok: %s\n", tests[i].name);
		fflush(stdout);
	}
	return 0;
}
