/* provider.h: the objects of the libfabric provider "ndxdp" and what its files share. README: docs/LIBFABRIC.md. */
#ifndef NDXDP_FI_PROVIDER_H
#define NDXDP_FI_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "../capi/ndxdp.h"

/* Limits that getinfo reports. Those of the library are checked against the adapter when a domain is opened. */
enum {
	MAX_IOV = 8,
	MAX_RMA_IOV = 1,
	INLINE = 256,                /* bytes that the library copies into its queues */
	MAX_INJECT = (16 << 10) + 64, /* a buffer of ofi_rxm with its header */
	MAX_MESSAGE = 1 << 30,
	MAX_QUEUE = 16384,
	MAX_CQ = 1 << 18,
	MAX_REGIONS = 65536,
	MAX_COUNTERS = 65536,
	DEFAULT_QUEUE = 256,
	DEFAULT_CQ = 1024,
	CQ_DATA_SIZE = 4,
	KEY_SIZE = 4,
	CQ_BATCH = 32, /* results that one call of the library returns at most */
};

#define TX_CAPS (FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS (FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define ALL_CAPS (TX_CAPS | RX_CAPS | DOMAIN_CAPS)

extern struct fi_provider provider;

#define WARN(subsystem, ...) FI_WARN(&provider, FI_LOG_##subsystem, __VA_ARGS__)
#define INFO(subsystem, ...) FI_INFO(&provider, FI_LOG_##subsystem, __VA_ARGS__)

/* ---- library.c: libndxdp.so ---- */

#define LIBRARY(X) \
	X(abi) X(version) X(status_name) X(status_text) X(last_error) \
	X(adapter_open) X(adapter_query) X(adapter_close) \
	X(memory_register) X(memory_close) \
	X(cq_create) X(cq_resize) X(cq_close) X(cq_poll) X(cq_descriptor) X(cq_arm) X(cq_wait) X(cq_wake) \
	X(srq_create) X(srq_close) X(qp_create) X(qp_close) X(post) X(receive) X(shared_receive) \
	X(event_queue_create) X(event_queue_close) X(event_queue_descriptor) X(event_queue_read) \
	X(listen) X(listener_address) X(listener_close) \
	X(connector_create) X(connector_events) X(connector_bind) X(connect) X(accept) X(reject) X(disconnect) \
	X(connector_local) X(connector_peer) X(connector_close)

struct library {
#define X(name) __typeof__(ndx_##name) *name;
	LIBRARY(X)
#undef X
};

/* The functions of the library. They may be called after library_load returned 0. */
extern struct library lib;

/* library_load loads libndxdp.so once. It returns 0 or -FI_ENOSYS. */
int library_load(void);

/* ---- status.c ---- */

/* status_errno converts a status into a negative fi_errno value, 0 for success. */
int status_errno(ndx_status status);
/* status_string writes the name and description of a status for the strerror calls. */
const char *status_string(int prov_errno, char *buf, size_t len);

/* ---- address.c ---- */

bool address_valid(const struct sockaddr *address, size_t len);
socklen_t address_size(const struct sockaddr *address);
bool address_any(const struct sockaddr *address);
bool address_loopback(const struct sockaddr *address);
bool address_equal(const struct sockaddr *a, const struct sockaddr *b);
uint16_t address_port(const struct sockaddr *address); /* in network order */
void address_set_port(struct sockaddr *address, uint16_t port);
void address_text(const struct sockaddr *address, char *text, size_t len);
/* address_copy copies an address to a caller of getname or getpeer. */
int address_copy(const struct sockaddr *from, void *to, size_t *len);
/* address_set replaces an address of an fi_info. */
bool address_set(void **address, size_t *len, const struct sockaddr *from);
/* address_toward finds the local address from which packets to `to` leave. */
int address_toward(const struct sockaddr *to, struct sockaddr_storage *from);

/* ---- adapter.c ---- */

/* An open adapter. A domain and a listener on one address share it, because a connection belongs to the adapter of its listener. */
struct adapter {
	struct adapter *next;
	struct sockaddr_storage address; /* port 0 */
	ndx_adapter handle;
	struct ndx_adapter_info limits;
	unsigned users;
};

int adapter_get(const struct sockaddr *address, struct adapter **adapter);
void adapter_put(struct adapter *adapter);

/* ---- init.c, getinfo.c, hints.c ---- */

/* Values of the environment: FI_NDXDP_IFACE, FI_NDXDP_DATAPATH, FI_NDXDP_BROKER. NULL: not set. */
extern char *param_iface, *param_datapath, *param_broker;

/* info_dup and info_free call the newest fi_dupinfo and fi_freeinfo of the loaded libfabric: attributes grow from release to release. */
struct fi_info *info_dup(const struct fi_info *info);
void info_free(struct fi_info *info);
int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints, struct fi_info **list);
/* hints_check returns NULL if the provider can offer what the hints ask for, and otherwise the name of the attribute that it cannot. */
const char *hints_check(uint32_t version, const struct fi_info *hints);
/* hints_apply changes an info from all that the provider offers to the subset that the hints ask for. */
void hints_apply(uint32_t version, const struct fi_info *hints, struct fi_info *info);

/* ---- fabric.c, domain.c ---- */

struct fabric {
	struct fid_fabric fid;
	atomic_int users;
};

struct domain {
	struct fid_domain fid;
	struct fabric *fabric;
	struct adapter *adapter;
	atomic_int users;
};

int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context);
int domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context);

static inline int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- eq.c ---- */

struct eq_entry {
	struct eq_entry *next;
	uint32_t event;
	bool written; /* by fi_eq_write: data is the whole entry */
	fid_t fid;
	void *context;
	struct fi_info *info; /* of FI_CONNREQ, until it is read */
	int err;              /* not 0: an error entry */
	uint32_t status;
	size_t len;
	unsigned char data[];
};

struct eq {
	struct fid_eq fid;
	struct fabric *fabric;
	atomic_int users;
	enum fi_wait_obj wait;
	bool writable;
	pthread_mutex_t lock;
	struct eq_entry *first, **last;
	struct eq_entry *reported; /* the error whose data fi_eq_readerr returned */
	int wake;                  /* eventfd, readable while the list has entries */
	int descriptor;            /* epoll of `wake` and of the library's queue */
	ndx_event_queue events;    /* 0 before the first endpoint is bound */
};

int eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out, void *context);
/* eq_use counts a user of the queue and connects the queue with the library. */
int eq_use(struct eq *eq);
/* eq_forget removes entries of an endpoint that is closed, and its use. */
void eq_forget(struct eq *eq, fid_t fid);
struct eq_entry *eq_entry_new(const void *data, size_t len);
/* eq_push appends an entry. The lock is held. */
void eq_push(struct eq *eq, struct eq_entry *entry);
/* eq_busy reports whether entries can be read. */
bool eq_busy(struct eq *eq);

/* ---- cq.c, cqread.c ---- */

struct cq {
	struct fid_cq fid;
	struct domain *domain;
	atomic_int users;
	ndx_cq handle;
	size_t entry_size;
	enum fi_wait_obj wait;
	atomic_bool signaled;
	/* Set while results are in `kept`, and always if results must be counted. Readers then take the lock. */
	atomic_bool slow;
	pthread_mutex_t lock;
	uint32_t depth, need; /* results that the library's queue holds, and that its endpoints may have outstanding */
	bool tracked;
	struct ndx_result *kept; /* ring of results that were taken from the library and not yet read */
	size_t first, count, room;
};

int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context);
/* cq_new makes a queue. An endpoint that has only counters uses one that the application does not see. */
int cq_new(struct domain *domain, const struct fi_cq_attr *attr, struct cq **out, void *context);
void cq_free(struct cq *cq);
/* cq_fit makes room for the results of an endpoint: applications give sizes as hints, and a queue that overruns ends its connections. Beyond
 * MAX_CQ results, applications must read in time. cq_unfit takes it back. */
int cq_fit(struct cq *cq, uint32_t results);
void cq_unfit(struct cq *cq, uint32_t results);
/* cq_track makes readers count results from now on. */
void cq_track(struct cq *cq);
/* cq_progress takes results from the library, counts them, and keeps those that the application reads. */
void cq_progress(struct cq *cq);
bool cq_busy(struct cq *cq);
extern struct fi_ops_cq cq_ops;

/* ---- cntr.c ---- */

struct feed {
	struct feed *next;
	struct cq *cq;
};

struct cntr {
	struct fid_cntr fid;
	struct domain *domain;
	atomic_int users;
	_Atomic uint64_t value, errors;
	pthread_mutex_t lock;
	struct feed *feeds; /* the completion queues whose results the counter counts */
};

int cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context);
int cntr_feed(struct cntr *cntr, struct cq *cq);
void cntr_unfeed(struct cntr *cntr, struct cq *cq);
void cntr_count(struct cntr *cntr, ndx_status status);

/* ---- mr.c, srx.c ---- */

extern struct fi_ops_mr mr_ops;

struct srx {
	struct fid_ep fid;
	struct domain *domain;
	atomic_int users;
	ndx_srq handle;
	uint32_t depth;
	_Atomic(struct cq *) fitted; /* the completion queue that has room for the receives */
};

int srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out, void *context);

/* ---- track.c ---- */

enum { TRACK_ENTRY = 1 }; /* success is an entry of the completion queue */

/* The flags of posted requests of one direction, in the order of posting, in which a queue pair completes them. */
struct track {
	unsigned char *flags;
	uint32_t size, head, tail; /* size 0: not tracked */
};

enum { COUNT_SEND, COUNT_RECV, COUNT_READ, COUNT_WRITE, COUNTERS };

struct ep;
int track_open(struct ep *ep);
void track_close(struct ep *ep);
ndx_status track_post(struct ep *ep, const struct ndx_request *request, unsigned flags);
ndx_status track_receive(struct ep *ep, const struct ndx_receive *receive, unsigned flags);
/* track_result counts a result of a tracked queue. It returns whether the result is an entry of the queue. */
bool track_result(const struct ndx_result *result);

/* ---- bounce.c ---- */

struct bounce;

/* bounce_post posts a request of up to MAX_INJECT bytes, and copies the bytes. wanted: success is an entry of the completion queue. */
ssize_t bounce_post(struct ep *ep, struct ndx_request *request, const struct iovec *iov, size_t count, size_t len, bool wanted);
/* bounce_result frees the slot of such a request, and gives the application's context to its result. Each result of the library is passed
 * to it once. */
void bounce_result(struct ndx_result *result);
/* bounce_close frees the slots. The queue pair is closed, and its results were read. */
void bounce_close(struct ep *ep);

/* ---- ep.c, cm.c, msg.c, rma.c ---- */

struct ep {
	struct fid_ep fid;
	struct domain *domain;
	struct eq *eq;
	struct cq *tx_cq, *rx_cq;
	bool own_tx_cq, own_rx_cq; /* made by the endpoint, for a direction without completion queue of the application */
	struct srx *srx;
	struct cntr *counters[COUNTERS];
	struct fi_info *info;
	uint64_t tx_op_flags, rx_op_flags;
	bool tx_selective, rx_selective;
	uint32_t tx_results, rx_results; /* room that the endpoint has in its completion queues */
	ndx_qp qp;
	ndx_connector connector;
	bool down; /* FI_SHUTDOWN was reported */
	bool tracked;
	pthread_mutex_t lock; /* of posting, if results are tracked */
	struct track tx, rx;
	_Atomic(struct bounce *) bounce; /* NULL before the first long injected request */
	pthread_mutex_t bounce_lock;
};

int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context);
int ep_enable(struct ep *ep);
int ep_getopt(fid_t fid, int level, int option, void *value, size_t *len);
extern struct fi_ops_cm ep_cm;
extern struct fi_ops_msg ep_msg;
extern struct fi_ops_rma ep_rma;
/* cm_event converts an event of the library into an entry, or NULL if the application need not know. The lock of the queue is held. */
struct eq_entry *cm_event(const struct ndx_event *event);

/* The context of injected requests. No context of an application has this address. */
extern char inject_context;

/* ep_post posts one request with the flags of libfabric. The caller has set type, context, peer and data. */
ssize_t ep_post(struct ep *ep, struct ndx_request *request, const struct iovec *iov, void **desc, size_t count, uint64_t flags);
/* ep_inject posts one request that has no completion. */
ssize_t ep_inject(struct ep *ep, struct ndx_request *request, const void *buf, size_t len);
/* sgl_set converts an iovec. It returns the number of entries or a negative fi_errno value. */
int sgl_set(struct ndx_sge *sgl, const struct iovec *iov, void **desc, size_t count);
/* sgl_set_receive is sgl_set for a receive, which ends before a buffer at NULL. So a receive without memory takes an empty message, as it
 * does with providers that look at the address only when bytes arrive. */
int sgl_set_receive(struct ndx_sge *sgl, const struct iovec *iov, void **desc, size_t count);

/* ---- pep.c ---- */

struct pep {
	struct fid_pep fid;
	struct fabric *fabric;
	struct eq *eq;
	struct adapter *adapter;
	struct fi_info *info;
	struct sockaddr_storage address;
	ndx_listener listener;
	uint32_t backlog;
	struct connreq *requests;
};

/* A connection request, the handle of the fi_info of FI_CONNREQ. It ends with fi_accept, fi_reject, or its listener. */
struct connreq {
	struct fid fid;
	struct pep *pep; /* NULL after an endpoint was made for it */
	struct connreq *next;
	ndx_connector connector;
};

int pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out, void *context);
struct eq_entry *pep_request(struct pep *pep, const struct ndx_event *event);
/* connreq_claim takes the request from its listener. */
void connreq_claim(struct connreq *request);
/* connreq_end refuses a request that was claimed and not answered. */
void connreq_end(struct connreq *request);

#endif
