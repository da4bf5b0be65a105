/* pair.h: two connected endpoints in one process, over the loopback address, for tests. */
#ifndef NDXDP_FI_TEST_PAIR_H
#define NDXDP_FI_TEST_PAIR_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define API FI_VERSION(1, 17)

enum {
	WAIT_MS = 20000, /* an event that has not come by then does not come */
	BUF = 1 << 16,
};

/* check ends the test with a message if the condition does not hold. */
#define check(condition, ...) \
	do { \
		if (!(condition)) { \
			printf("not ok: %s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__); \
			printf("\n"); \
			exit(1); \
		} \
	} while (0)
/* must ends the test if a call of libfabric fails. */
#define must(call) \
	do { \
		long result = (long) (call); \
		check(result >= 0, "%s", fi_strerror((int) -result)); \
	} while (0)

struct options {
	const char *address;   /* NULL: 127.0.0.1 */
	struct fi_info *hints; /* NULL: the usual ones */
	struct fi_cq_attr cq;
	uint64_t cq_flags;     /* for fi_ep_bind, beside the direction */
	bool shared_receive;
	bool counters;
};

struct side {
	struct fid_eq *eq;
	struct fid_cq *tx, *rx;
	struct fid_ep *srx, *ep;
	struct fid_cntr *sent, *received, *read, *wrote;
	struct fid_mr *mr;
	unsigned char *buf; /* BUF bytes, registered with all rights */
	void *desc;
};

struct pair {
	struct options options;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_pep *pep;
	struct fid_eq *listening;
	struct sockaddr_storage address;
	struct side a, b; /* a connected, b accepted */
};

struct fi_info *usual_hints(void);
/* pair_listen opens fabric, domain and listener. */
void pair_listen(struct pair *p, const struct options *options);
void side_open(struct pair *p, struct side *s, struct fi_info *info);
void side_close(struct side *s);
/* pair_connect connects a with b. */
void pair_connect(struct pair *p);
void pair_open(struct pair *p, const struct options *options);
void pair_close(struct pair *p);

/* at returns the address of a byte of a side's memory for its peer. */
static inline uint64_t at(const struct side *s, size_t offset)
{
	return (uintptr_t) s->buf + offset;
}

/* expect_event waits for an event of an endpoint and returns the length of its data. */
size_t expect_event(struct fid_eq *eq, uint32_t event, struct fi_eq_cm_entry *entry, size_t len);
/* completion waits for one completion, which must be a success. failure waits for one that is an error. */
struct fi_cq_data_entry completion(struct fid_cq *cq);
struct fi_cq_err_entry failure(struct fid_cq *cq);

#endif
