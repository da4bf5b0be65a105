/* faults.c: wrong input and faults, each of which has one right answer. */
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static struct fi_info *wrong;

static void want_none(const char *what)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(API, NULL, NULL, 0, wrong, &info);

	check(ret == -FI_ENODATA, "%s: %s", what, fi_strerror(-ret));
	fi_freeinfo(wrong);
}

/* hint refuses hints with one wrong attribute. */
#define hint(attribute, value) \
	do { \
		wrong = usual_hints(); \
		wrong->attribute = (value); \
		want_none(#attribute); \
	} while (0)

static void hints(void)
{
	hint(caps, FI_MSG | FI_ATOMIC);
	hint(caps, FI_TAGGED);
	hint(addr_format, FI_SOCKADDR_IB);
	hint(ep_attr->type, FI_EP_DGRAM);
	hint(ep_attr->protocol, FI_PROTO_IWARP);
	hint(ep_attr->max_msg_size, (size_t) 1 << 40);
	hint(ep_attr->tx_ctx_cnt, FI_SHARED_CONTEXT);
	hint(ep_attr->max_order_war_size, 1);
	hint(domain_attr->name, strdup("no such address"));
	hint(domain_attr->cq_data_size, 8);
	hint(domain_attr->mr_mode, FI_MR_SCALABLE);
	hint(domain_attr->mr_mode, FI_MR_LOCAL);
	hint(domain_attr->mr_cnt, 1 << 20);
	hint(fabric_attr->name, strdup("another fabric"));
	hint(tx_attr->inject_size, 1 << 20);
	hint(tx_attr->size, 1 << 20);
	hint(tx_attr->iov_limit, 100);
	hint(tx_attr->rma_iov_limit, 2);
	hint(tx_attr->msg_order, FI_ORDER_WAR);
	hint(rx_attr->size, 1 << 20);
	hint(rx_attr->op_flags, FI_MULTI_RECV);
	wrong = usual_hints();
	wrong->src_addr = calloc(1, 4);
	wrong->src_addrlen = 4;
	want_none("a source address of 4 bytes");
	wrong = usual_hints();
	wrong->mode = 0;
	wrong->domain_attr->cq_data_size = 4;
	want_none("data with Writes, without FI_RX_CQ_DATA");
}

static void refused(void)
{
	struct fi_eq_err_entry error = {0};
	struct fi_eq_cm_entry entry;
	struct sockaddr_storage closed;
	unsigned char data[100], copy[512];
	struct pair p;
	uint32_t event;

	pair_listen(&p, NULL);
	closed = p.address;
	((struct sockaddr_in *) &closed)->sin_port ^= 1;
	side_open(&p, &p.a, p.info);
	must(fi_connect(p.a.ep, &closed, NULL, 0));
	check(fi_eq_sread(p.a.eq, &event, &entry, sizeof(entry), WAIT_MS, 0) == -FI_EAVAIL, "no error");
	must(fi_eq_readerr(p.a.eq, &error, 0));
	check(error.err == FI_ECONNREFUSED && error.fid == &p.a.ep->fid && error.err_data_size == 0, "%s", fi_strerror(error.err));
	check(strstr(fi_eq_strerror(p.a.eq, error.prov_errno, NULL, (char *) copy, sizeof(copy)), "REFUSED"), "%s", copy);
	side_close(&p.a);

	memset(data, 7, sizeof(data));
	side_open(&p, &p.a, p.info);
	must(fi_connect(p.a.ep, &p.address, NULL, 0));
	expect_event(p.listening, FI_CONNREQ, &entry, sizeof(entry));
	must(fi_reject(p.pep, entry.info->handle, data, sizeof(data)));
	fi_freeinfo(entry.info);
	check(fi_eq_sread(p.a.eq, &event, &entry, sizeof(entry), WAIT_MS, 0) == -FI_EAVAIL, "no error");
	error = (struct fi_eq_err_entry){.err_data = copy, .err_data_size = sizeof(copy)};
	must(fi_eq_readerr(p.a.eq, &error, 0));
	check(error.err == FI_ECONNREFUSED && error.err_data_size == sizeof(data) && !memcmp(copy, data, sizeof(data)), "%zu bytes",
		error.err_data_size);
	pair_close(&p);
}

/* too_long: a message that is longer than its receive is an error at both sides, and ends the connection. */
static void too_long(void)
{
	struct fi_eq_cm_entry entry;
	struct fi_cq_err_entry error;
	struct pair p;

	pair_open(&p, NULL);
	must(fi_recv(p.b.ep, p.b.buf, 10, p.b.desc, 0, &p.b));
	must(fi_send(p.a.ep, p.a.buf, 11, p.a.desc, 0, &p.a));
	error = failure(p.b.rx);
	check(error.err == FI_ETRUNC && error.op_context == &p.b, "%s", fi_strerror(error.err));
	check(failure(p.a.tx).op_context == &p.a, "context");
	expect_event(p.a.eq, FI_SHUTDOWN, &entry, sizeof(entry));
	/* Requests after the end complete with an error, like those before it. */
	must(fi_send(p.a.ep, p.a.buf, 10, p.a.desc, 0, &p.b));
	error = failure(p.a.tx);
	check(error.err == FI_ECANCELED && error.op_context == &p.b, "%s", fi_strerror(error.err));
	pair_close(&p);
}

/* closed_memory: a Write to memory that was closed fails, and no byte arrives. */
static void closed_memory(void)
{
	struct fi_cq_err_entry error;
	uint64_t key;
	char text[200];
	struct pair p;

	pair_open(&p, NULL);
	key = fi_mr_key(p.b.mr);
	must(fi_close(&p.b.mr->fid));
	p.b.mr = NULL;
	memset(p.a.buf, 1, 100);
	must(fi_write(p.a.ep, p.a.buf, 100, p.a.desc, 0, at(&p.b, 0), key, &p.a));
	error = failure(p.a.tx);
	check(error.err == FI_EACCES && error.op_context == &p.a, "%s", fi_strerror(error.err));
	check(strstr(fi_cq_strerror(p.a.tx, error.prov_errno, NULL, text, sizeof(text)), "ACCESS"), "%s", text);
	check(p.b.buf[0] == 0, "bytes arrived");
	pair_close(&p);
}

/* injected: the failure of an injected message is no completion, because it has no context. */
static void injected(void)
{
	struct fi_cq_data_entry entry;
	struct fi_eq_cm_entry event;
	struct pair p;

	pair_open(&p, NULL);
	must(fi_inject_write(p.a.ep, "abc", 3, 0, at(&p.b, 0), fi_mr_key(p.b.mr) ^ 1));
	must(fi_inject(p.a.ep, "abc", 3, 0));
	must(fi_inject(p.a.ep, p.a.buf, 5000, 0));
	expect_event(p.a.eq, FI_SHUTDOWN, &event, sizeof(event));
	check(fi_cq_read(p.a.tx, &entry, 1) == -FI_EAGAIN, "a completion without context");
	pair_close(&p);
}

/* full: a queue that is full answers -FI_EAGAIN, and all that was posted completes in order. */
static void full(void)
{
	size_t posted = 0, done = 0, n = 3000;
	struct fi_cq_data_entry entry;
	struct pair p;
	ssize_t ret;

	pair_open(&p, NULL);
	while ((ret = fi_recv(p.b.ep, p.b.buf, 8, p.b.desc, 0, NULL)) == 0)
		check(++posted <= p.info->rx_attr->size, "more receives than the queue has");
	check(ret == -FI_EAGAIN && posted == p.info->rx_attr->size, "%zu: %s", posted, fi_strerror((int) -ret));
	for (posted = 0; done < n;) {
		while (posted < n && (ret = fi_send(p.a.ep, p.a.buf, 8, p.a.desc, 0, (void *) posted)) == 0)
			posted++;
		check(posted == n || ret == -FI_EAGAIN, "%s", fi_strerror((int) -ret));
		while (fi_cq_read(p.b.rx, &entry, 1) == 1)
			must(fi_recv(p.b.ep, p.b.buf, 8, p.b.desc, 0, NULL));
		for (; fi_cq_read(p.a.tx, &entry, 1) == 1; done++)
			check((size_t) entry.op_context == done, "completion %zu instead of %zu", (size_t) entry.op_context, done);
	}
	pair_close(&p);
}

/* small_queue: an application gives the size of a completion queue as a hint; the queue does not overrun. */
static void small_queue(void)
{
	struct options options = {.cq = {.size = 1}};
	struct pair p;

	pair_open(&p, &options);
	for (int i = 0; i < 200; i++)
		must(fi_recv(p.b.ep, p.b.buf, 8, p.b.desc, 0, NULL));
	for (int i = 0; i < 200; i++)
		must(fi_send(p.a.ep, p.a.buf, 8, p.a.desc, 0, NULL));
	must(fi_send(p.b.ep, p.b.buf, 8, p.b.desc, 0, NULL));
	must(fi_recv(p.a.ep, p.a.buf, 8, p.a.desc, 0, NULL));
	completion(p.a.rx);
	for (int i = 0; i < 200; i++) {
		completion(p.b.rx);
		completion(p.a.tx);
	}
	pair_close(&p);
}

static void many_regions(void)
{
	static struct fid_mr *regions[65537];
	uint64_t access = FI_SEND | FI_REMOTE_READ;
	struct pair p;
	int ret = 0, n;

	pair_listen(&p, NULL);
	p.a.buf = calloc(1, BUF);
	for (n = 0; n < 65537 && !ret; n++)
		ret = fi_mr_reg(p.domain, p.a.buf, BUF, access, 0, 0, 0, &regions[n], NULL);
	check(ret == -FI_ENOMEM, "after %d registrations: %s", n, fi_strerror(-ret));
	check(n > 65000, "only %d registrations", n);
	while (--n)
		must(fi_close(&regions[n - 1]->fid));
	must(fi_mr_reg(p.domain, p.a.buf, BUF, access, 0, 0, 0, &p.a.mr, NULL));
	check(fi_mr_reg(p.domain, NULL, 10, access, 0, 0, 0, &regions[0], NULL) == -FI_EINVAL, "no address");
	check(fi_mr_reg(p.domain, (void *) 4096, 10, access, 0, 0, 0, &regions[0], NULL) == -FI_EACCES, "memory that is not mapped");
	pair_close(&p);
}

static void busy(void)
{
	struct pair p;

	pair_open(&p, NULL);
	check(fi_close(&p.a.tx->fid) == -FI_EBUSY, "completion queue");
	check(fi_close(&p.a.eq->fid) == -FI_EBUSY, "event queue");
	check(fi_close(&p.domain->fid) == -FI_EBUSY, "domain");
	check(fi_close(&p.fabric->fid) == -FI_EBUSY, "fabric");
	check(fi_ep_bind(p.a.ep, &p.a.tx->fid, FI_TRANSMIT) == -FI_EOPBADSTATE, "bound after fi_enable");
	pair_close(&p);
}

/* forked: the child of a process with a domain gets errors, and the parent goes on. */
static void forked(void)
{
	struct fi_cq_data_entry entry;
	struct fid_mr *mr;
	struct pair p;
	int status;
	pid_t child;

	pair_open(&p, NULL);
	child = fork();
	if (!child) {
		check(fi_inject(p.a.ep, "abc", 3, 0) == -FI_EOPNOTSUPP, "a message");
		check(fi_cq_read(p.a.tx, &entry, 1) == -FI_EOPNOTSUPP, "a completion queue");
		check(fi_mr_reg(p.domain, p.a.buf, 10, FI_SEND, 0, 0, 0, &mr, NULL) == -FI_EOPNOTSUPP, "memory");
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
	must(fi_recv(p.b.ep, p.b.buf, 10, p.b.desc, 0, NULL));
	must(fi_inject(p.a.ep, "abc", 3, 0));
	completion(p.b.rx);
	pair_close(&p);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"wrong hints", hints},
	{"refused connections", refused},
	{"a message longer than its receive", too_long},
	{"closed memory", closed_memory},
	{"failures of injected requests", injected},
	{"full queues", full},
	{"a completion queue that is too small", small_queue},
	{"65,537 registrations", many_regions},
	{"objects in use", busy},
	{"use after fork", forked},
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
