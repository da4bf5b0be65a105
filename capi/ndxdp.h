/* ndxdp.h: NetworkDirect (RDMA semantics) over AF_XDP and UDP, for C and for languages that call C.
 *
 * Link with -lndxdp, or load libndxdp.so.1 with dlopen. This header is the manual of the library.
 *
 * OBJECTS
 *   Every object has a handle, a 64-bit number. 0 is never a handle. A handle that was closed, or that names an object of another kind,
 *   is answered with NDX_ERR_INVALID_HANDLE. Close objects in any order; closing an adapter ends the use of all its objects, and their
 *   handles remain to be closed. Connections: adapter -> event queue, completion queue, queue pair -> connector or listener.
 *
 *   The library keeps no pointer of the program, except the memory of registrations, until the registration is closed. Structures and
 *   lists are copied during the call. A cookie or context is a number that the library returns as it was given.
 *
 * STATUSES
 *   Functions return an ndx_status: NDX_SUCCESS, or a failure (ndx_failed). Functions that return int32_t return a count, or a failed status
 *   as a negative number: (ndx_status)n. ndx_status_name and ndx_status_text describe a status. ndx_last_error has more words about the
 *   newest failure of the calling thread: addresses, causes, remedies.
 *
 * THREADS, SIGNALS, FORK
 *   Every function may be called from any thread. Functions block only if their description says so. No function may be called from a
 *   signal handler. The library never calls the program.
 *
 *   The library contains the Go runtime, which starts threads when the library is loaded. They block every signal that a program can
 *   block, so that handlers of the program run on threads of the program alone. Install handlers with SA_ONSTACK. A handler without it that
 *   interrupts a call of the library has 16 KiB of stack. A program cannot load two libraries that contain Go runtimes.
 *
 *   After fork, the child must not use the library: every function returns NDX_ERR_FORKED there and does nothing. fork followed by exec is
 *   safe. dlclose does not unload the library.
 *
 * MEMORY
 *   A region makes memory usable for requests and, with rights, for peers. malloc'ed memory, mmap'ed memory, stacks and static data can be
 *   registered. Nothing is pinned. The memory must stay mapped until ndx_memory_close has returned. A request on memory that is gone ends
 *   with NDX_ERR_ACCESS_VIOLATION.
 *
 * ORDER
 *   Requests of a queue pair start and complete in the order of posting. Writes and messages take effect at the peer in this order. A Read
 *   returns what earlier requests have written; with NDX_FENCE a request waits for earlier Reads. Success of a request means that the
 *   peer's adapter has placed all bytes.
 *
 * COMPATIBILITY
 *   NDX_ABI is the version of this interface. Within a version, functions, constants, and fields at the end of structures that begin
 *   with `size` are only added. Set `size` to sizeof the structure and all fields that are not used to 0.
 */
#ifndef NDXDP_H
#define NDXDP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NDX_ABI 1

#if defined(__GNUC__)
#define NDX_API __attribute__((visibility("default")))
#else
#define NDX_API
#endif

/* ---- Library ---- */

/* ndx_abi returns the NDX_ABI of the loaded library. ndx_version returns its release as text, for example "v1.2.0 (linux/amd64)". */
NDX_API uint32_t ndx_abi(void);
NDX_API const char *ndx_version(void);

/* ---- Statuses ---- */

typedef uint32_t ndx_status;

enum {
	NDX_SUCCESS = 0,
};

/* The failures have the numbers of NetworkDirect. They are macros because an enumerator of C11 is an int. */
#define NDX_ERR_BUFFER_OVERFLOW        ((ndx_status)0x80000005) /* message longer than the receive; queue overrun; request too long */
#define NDX_ERR_DEVICE_BUSY            ((ndx_status)0x80000011)
#define NDX_ERR_NO_MORE_ENTRIES        ((ndx_status)0x8000001A) /* the work queue is full: fetch results first */
#define NDX_ERR_UNSUCCESSFUL           ((ndx_status)0xC0000001)
#define NDX_ERR_ACCESS_VIOLATION       ((ndx_status)0xC0000005) /* memory refused: token, range or right */
#define NDX_ERR_INVALID_HANDLE         ((ndx_status)0xC0000008)
#define NDX_ERR_INVALID_PARAMETER      ((ndx_status)0xC000000D) /* also 0xC00000EF + i: field i of the structure, see the function */
#define NDX_ERR_INVALID_DEVICE_REQUEST ((ndx_status)0xC0000010) /* for example a Read with read limit 0 */
#define NDX_ERR_NO_MEMORY              ((ndx_status)0xC0000017)
#define NDX_ERR_INVALID_PARAMETER_MIX  ((ndx_status)0xC0000030)
#define NDX_ERR_DATA_OVERRUN           ((ndx_status)0xC000003C) /* more entries than the queue pair takes */
#define NDX_ERR_SHARING_VIOLATION      ((ndx_status)0xC0000043) /* the address is in use */
#define NDX_ERR_INSUFFICIENT_RESOURCES ((ndx_status)0xC000009A)
#define NDX_ERR_DEVICE_NOT_READY       ((ndx_status)0xC00000A3) /* an adapter cannot be opened */
#define NDX_ERR_IO_TIMEOUT             ((ndx_status)0xC00000B5) /* the peer is silent */
#define NDX_ERR_NOT_SUPPORTED          ((ndx_status)0xC00000BB)
#define NDX_ERR_BAD_NETWORK_NAME       ((ndx_status)0xC00000CC)
#define NDX_ERR_INTERNAL               ((ndx_status)0xC00000E5)
#define NDX_ERR_CANCELED               ((ndx_status)0xC0000120) /* the connection or the object ended first */
#define NDX_ERR_REMOTE_ERROR           ((ndx_status)0xC000013D) /* the peer could not take the message */
#define NDX_ERR_INVALID_ADDRESS        ((ndx_status)0xC0000141)
#define NDX_ERR_INVALID_DEVICE_STATE   ((ndx_status)0xC0000184)
#define NDX_ERR_INVALID_BUFFER_SIZE    ((ndx_status)0xC0000206)
#define NDX_ERR_TOO_MANY_ADDRESSES     ((ndx_status)0xC0000209)
#define NDX_ERR_ADDRESS_ALREADY_EXISTS ((ndx_status)0xC000020A)
#define NDX_ERR_CONNECTION_REFUSED     ((ndx_status)0xC0000236)
#define NDX_ERR_ADDRESS_ASSOCIATED     ((ndx_status)0xC0000238)
#define NDX_ERR_CONNECTION_INVALID     ((ndx_status)0xC000023A) /* not connected, or over */
#define NDX_ERR_CONNECTION_ACTIVE      ((ndx_status)0xC000023B)
#define NDX_ERR_NETWORK_UNREACHABLE    ((ndx_status)0xC000023C)
#define NDX_ERR_HOST_UNREACHABLE       ((ndx_status)0xC000023D)
#define NDX_ERR_CONNECTION_ABORTED     ((ndx_status)0xC0000241)
#define NDX_ERR_DEVICE_REMOVED         ((ndx_status)0xC00002B6) /* the adapter is closed, or its interface or address is gone */
#define NDX_ERR_FORKED                 ((ndx_status)0xE0000001) /* the process was forked after the library was loaded; no number of ND's */

/* ndx_failed reports whether a status is a failure: its bit 31 is set. */
static inline int ndx_failed(ndx_status s) { return s >> 31 != 0; }

/* ndx_status_name returns the name of a status, for example "ND_CONNECTION_REFUSED"; "ND_UNKNOWN" for a number that is none.
 * ndx_status_text returns a description. The strings are static. Both work after fork. */
NDX_API const char *ndx_status_name(ndx_status s);
NDX_API const char *ndx_status_text(ndx_status s);

/* ndx_last_error returns the text of the newest failure of a function of this library in the calling thread, at most 511 bytes and a
 * final 0. It is empty before the first failure. The string is valid until the thread calls the library again. ndx_post, ndx_receive,
 * ndx_shared_receive, ndx_cq_poll and ndx_cq_arm do not set it, except for NDX_ERR_INVALID_HANDLE. */
NDX_API const char *ndx_last_error(void);

/* ---- Handles ---- */

typedef uint64_t ndx_adapter;
typedef uint64_t ndx_memory;
typedef uint64_t ndx_event_queue;
typedef uint64_t ndx_cq;        /* completion queue */
typedef uint64_t ndx_qp;        /* queue pair */
typedef uint64_t ndx_srq;       /* shared receive queue */
typedef uint64_t ndx_listener;
typedef uint64_t ndx_connector;

/* ---- Adapters ---- */

struct ndx_adapter_config {
	uint32_t size;
	uint16_t udp_port;       /* in host order; 0: 14791. Both peers use the same one */
	uint16_t flags;          /* 0 */
	const char *datapath;    /* "auto", "native", "generic", "tcx", "ring", "udp"; NULL: "auto" */
	const char *broker;      /* path of a broker's socket; NULL: none */
	const char *bulk;        /* "auto", "off", "only"; NULL: "auto" */
	uint32_t peer_timeout_ms; /* until a silent peer is given up; 0: 5000 */
	int32_t spin_us;         /* how long ndx_cq_wait polls before it sleeps; 0: 100, negative: not at all */
};

/* Limits and description of an open adapter. Depths are in requests. */
struct ndx_adapter_info {
	uint32_t size;
	uint32_t max_sge;               /* entries of a request */
	uint32_t max_transfer;          /* bytes of a request */
	uint32_t max_inline;            /* bytes of a request with NDX_INLINE */
	uint32_t max_queue_depth;       /* of a queue pair, for each direction */
	uint32_t max_shared_depth;
	uint32_t max_cq_depth;
	uint32_t max_read_limit;        /* of Reads in flight, for each direction */
	uint32_t max_private_data;      /* bytes */
	uint32_t max_memory;            /* regions */
	uint32_t mtu;                   /* of the interface */
	uint32_t reaches_itself;        /* 1 if connections to the adapter's own address work */
	char interface_name[32];
	char datapath[16];              /* as in ndx_adapter_config */
	char reason[256];               /* why this datapath was chosen */
};

/* ndx_adapter_open opens the interface that has addr, an IPv4 or IPv6 address (its port is ignored). config may be NULL. With "auto", an
 * unprivileged process gets the best datapath that it may open, at least "udp". It blocks for some milliseconds.
 *
 * Failures: INVALID_ADDRESS (no interface has it), INVALID_PARAMETER (a name in config), NO_MEMORY, INSUFFICIENT_RESOURCES,
 * DEVICE_NOT_READY; ndx_last_error says why. */
NDX_API ndx_status ndx_adapter_open(const struct sockaddr *addr, const struct ndx_adapter_config *config, ndx_adapter *adapter);
/* ndx_adapter_query fills info up to info->size. */
NDX_API ndx_status ndx_adapter_query(ndx_adapter adapter, struct ndx_adapter_info *info);
/* ndx_adapter_close ends all connections and finishes all requests with NDX_ERR_CANCELED. It blocks until packets have left. */
NDX_API ndx_status ndx_adapter_close(ndx_adapter adapter);

/* ---- Memory ---- */

enum {
	NDX_LOCAL_WRITE = 0x1,  /* receives and Reads of this side may write to the region */
	NDX_REMOTE_READ = 0x2,
	NDX_REMOTE_WRITE = 0x5, /* includes NDX_LOCAL_WRITE */
	NDX_BASE = 0x100,       /* peers address the first byte of the region as ndx_memory_info.base of the call; otherwise as a random number */
};

struct ndx_memory_info {
	uint64_t base;     /* address of the first byte in requests of peers. In: with NDX_BASE, the chosen one. Out: the one in force */
	uint32_t token;    /* for requests of this side and for peers */
	uint32_t reserved;
	void *address;     /* of the first byte in this process */
	uint64_t length;
};

/* ndx_memory_register makes length bytes at address usable. base + length must not exceed 2^64. With NDX_BASE only the token keeps
 * a peer from memory that was not granted to it: base 0 makes addresses offsets.
 *
 * Failures: ACCESS_VIOLATION (not mapped, read-only, or beyond the end of its file), INSUFFICIENT_RESOURCES (max_memory regions),
 * INVALID_PARAMETER, DEVICE_REMOVED. */
NDX_API ndx_status ndx_memory_register(
	ndx_adapter adapter, void *address, uint64_t length, uint32_t flags, struct ndx_memory_info *info, ndx_memory *memory);
/* ndx_memory_allocate makes a region of new zeroed bytes, which the adapter sends without a copy while it has such memory. info->address
 * is the memory, valid until ndx_memory_close. */
NDX_API ndx_status ndx_memory_allocate(
	ndx_adapter adapter, uint64_t length, uint32_t flags, struct ndx_memory_info *info, ndx_memory *memory);
/* ndx_memory_close ends a registration. When it returns, nothing touches the memory any more. */
NDX_API ndx_status ndx_memory_close(ndx_memory memory);

/* ---- Completion queues ---- */

enum {
	NDX_RECEIVE = 0,
	NDX_SEND = 1,
	NDX_READ = 4,
	NDX_WRITE = 5,
};

enum {
	NDX_HAS_IMMEDIATE = 0x1, /* immediate is valid */
	NDX_WAS_SOLICITED = 0x2, /* the sender used NDX_SOLICIT, or wrote with NDX_IMMEDIATE */
};

/* The completion of one request. A Write with NDX_IMMEDIATE completes a receive of the peer with both flags and 0 bytes. */
struct ndx_result {
	uint64_t context;    /* of the request */
	uint64_t qp_context; /* of the queue pair */
	ndx_status status;
	uint32_t bytes;      /* of a receive; undefined for other types */
	uint32_t immediate;
	uint8_t type;        /* NDX_RECEIVE, NDX_SEND, NDX_READ or NDX_WRITE */
	uint8_t flags;
	uint16_t reserved;
};

/* ndx_cq_create makes a queue of at least depth results. If more results come than the queue holds, the queue fails and its connections
 * end: depth must be at least the sum of the depths of its queue pairs. */
NDX_API ndx_status ndx_cq_create(ndx_adapter adapter, uint32_t depth, ndx_cq *cq);
/* ndx_cq_resize changes the depth while traffic runs. Failures: INVALID_PARAMETER (beyond max_cq_depth), BUFFER_OVERFLOW (more results
 * wait), DEVICE_REMOVED. */
NDX_API ndx_status ndx_cq_resize(ndx_cq cq, uint32_t depth);
NDX_API ndx_status ndx_cq_close(ndx_cq cq);
/* ndx_cq_poll moves up to n results out of the queue, oldest first, and returns how many. It also moves packets: connections make progress
 * while their completion queues are polled, and otherwise in the background. It never blocks. An empty queue that cannot get results
 * any more returns a status: BUFFER_OVERFLOW (it overran), DEVICE_REMOVED. */
NDX_API int32_t ndx_cq_poll(ndx_cq cq, struct ndx_result *results, uint32_t n);

enum {
	NDX_NOTIFY_ERRORS = 0,    /* failures of the queue itself */
	NDX_NOTIFY_ANY = 1,       /* any result */
	NDX_NOTIFY_SOLICITED = 2, /* solicited results and failed results */
};

/* ndx_cq_descriptor returns the queue's file descriptor, for poll, select and epoll. It becomes readable when the result comes for which
 * the queue was armed, when the queue or the adapter ends, and after ndx_cq_wake. Do not read it, write it or close it. To sleep:
 *
 *	while ((n = ndx_cq_poll(cq, results, 32)) == 0)
 *		if (ndx_cq_arm(cq, NDX_NOTIFY_ANY) == 0)
 *			poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
 */
NDX_API ndx_status ndx_cq_descriptor(ndx_cq cq, int *fd);
/* ndx_cq_arm makes the descriptor not readable, and then readable once a result of the level comes. It returns 1 if results are in the
 * queue: do not sleep then. Arming again adds the level. */
NDX_API int32_t ndx_cq_arm(ndx_cq cq, uint32_t level);
/* ndx_cq_wait blocks until a result of the level comes that came after the newest notification, or until ndx_cq_wake. It returns at once
 * if results are in the queue that no notification has reported. The calling thread sleeps at the packets itself: this is the fastest way
 * to sleep. timeout_ms < 0 waits for ever. Returns 1 for a result, 0 after the time or ndx_cq_wake. Failures: CANCELED (closed),
 * BUFFER_OVERFLOW (overran), DEVICE_REMOVED. */
NDX_API int32_t ndx_cq_wait(ndx_cq cq, uint32_t level, int32_t timeout_ms);
/* ndx_cq_wake ends all calls of ndx_cq_wait that wait now, or else the next one, and makes the descriptor readable until the next
 * ndx_cq_arm. */
NDX_API ndx_status ndx_cq_wake(ndx_cq cq);

/* ---- Queue pairs and shared receive queues ---- */

/* ndx_srq_create makes a queue of receives that several queue pairs of the adapter take. max_sge counts entries of a receive. */
NDX_API ndx_status ndx_srq_create(ndx_adapter adapter, uint32_t depth, uint32_t max_sge, ndx_srq *srq);
NDX_API ndx_status ndx_srq_close(ndx_srq srq);

struct ndx_qp_config {
	uint32_t size;
	uint32_t flags;           /* 0 */
	uint64_t context;         /* qp_context of results */
	ndx_cq receive_cq;
	ndx_cq initiator_cq;      /* may be the same */
	ndx_srq srq;              /* 0: the queue pair has receives of its own */
	uint32_t receive_depth;   /* requests; not used with srq */
	uint32_t initiator_depth; /* a Write with NDX_IMMEDIATE takes two */
	uint32_t receive_sge;     /* entries of a request; not used with srq */
	uint32_t initiator_sge;
	uint32_t inline_size;     /* bytes of a request with NDX_INLINE */
	uint32_t reserved;
};

NDX_API ndx_status ndx_qp_create(ndx_adapter adapter, const struct ndx_qp_config *config, ndx_qp *qp);
/* ndx_qp_flush ends all outstanding requests with NDX_ERR_CANCELED. Their results are in the completion queues when it returns. */
NDX_API ndx_status ndx_qp_flush(ndx_qp qp);
/* ndx_qp_close flushes, and ends the connection. */
NDX_API ndx_status ndx_qp_close(ndx_qp qp);

/* A part of memory. A request that names bytes outside the region of the token ends with NDX_ERR_ACCESS_VIOLATION. */
struct ndx_sge {
	uint64_t address; /* in this process */
	uint32_t length;
	uint32_t token;   /* of the region; not used with NDX_INLINE */
};

enum {
	NDX_SILENT = 0x1,      /* no result on success */
	NDX_FENCE = 0x2,       /* start only when all earlier Reads are done */
	NDX_SOLICIT = 0x4,     /* Send: the peer's result is solicited */
	NDX_INLINE = 0x20,     /* Send, Write: copy the bytes now. They need no registration and may be reused when the call returns */
	NDX_DEFER = 0x200,     /* the next call posts more: start with the next post without this flag, or one that fails */
	NDX_IMMEDIATE = 0x2000, /* Send, Write: the peer's result carries `immediate`. A Write completes a receive of the peer then */
};

/* A Send, Read or Write. Fields that do not apply to the type are 0. */
struct ndx_request {
	uint64_t context;      /* returned in the result */
	const struct ndx_sge *sgl;
	uint32_t nsge;
	uint32_t type;         /* NDX_SEND, NDX_READ or NDX_WRITE */
	uint32_t flags;
	uint32_t immediate;
	uint64_t peer_address; /* Read, Write */
	uint32_t peer_token;   /* Read, Write */
	uint32_t reserved;
};

/* ndx_post posts n requests in order and starts them together. All but the last one are deferred; NDX_DEFER of the last one says whether it
 * is. If a request fails to be posted, the call stops there and starts those before it. *posted, if posted is not NULL, is the number of
 * posted requests. A request is posted as a whole or not at all.
 *
 * A Write with NDX_IMMEDIATE is one request with one result. It takes two entries of the queue, and NDX_INLINE applies to its bytes.
 *
 * Failures: CONNECTION_INVALID (not connected yet, or closed), DATA_OVERRUN (entries), BUFFER_OVERFLOW (bytes), NO_MORE_ENTRIES (the queue
 * is full: poll), INVALID_DEVICE_REQUEST (a Read, and the read limit is 0), INVALID_PARAMETER (type or flags), DEVICE_REMOVED. */
NDX_API ndx_status ndx_post(ndx_qp qp, const struct ndx_request *requests, uint32_t n, uint32_t *posted);

struct ndx_receive {
	uint64_t context;
	const struct ndx_sge *sgl;
	uint32_t nsge;
	uint32_t reserved;
};

/* ndx_receive posts n receives, also before the queue pair is connected. ndx_shared_receive posts n receives to a shared receive queue.
 * A message waits at the peer, for two seconds, until a receive is posted. A longer message than its receive ends the connection.
 *
 * Failures: DATA_OVERRUN, BUFFER_OVERFLOW, NO_MORE_ENTRIES, DEVICE_REMOVED. */
NDX_API ndx_status ndx_receive(ndx_qp qp, const struct ndx_receive *receives, uint32_t n, uint32_t *posted);
NDX_API ndx_status ndx_shared_receive(ndx_srq srq, const struct ndx_receive *receives, uint32_t n, uint32_t *posted);

/* ---- Event queues: how the program learns of connections ---- */

enum {
	NDX_EVENT_REQUEST = 1,     /* listener: `connector` is a new one; private data and read limits of the peer */
	NDX_EVENT_CONNECTED = 2,   /* connector: the queue pair can be used; private data of the accept at the active side */
	NDX_EVENT_FAILED = 3,      /* connector: ndx_connect or ndx_accept failed with `status`; private data of a rejection */
	NDX_EVENT_SHUTDOWN = 4,    /* connector: the peer disconnected, or the connection was lost; at most once */
	NDX_EVENT_DISCONNECTED = 5 /* connector: ndx_disconnect is done, with `status` */
};

enum { NDX_MAX_PRIVATE_DATA = 512 };

struct ndx_event {
	uint32_t type;
	ndx_status status;             /* of FAILED and DISCONNECTED; of SHUTDOWN: CONNECTION_ABORTED if the connection was lost */
	uint64_t cookie;               /* of the connector or listener */
	ndx_connector connector;       /* REQUEST: the new one; otherwise the one that the event is about */
	struct sockaddr_storage local; /* REQUEST, CONNECTED */
	struct sockaddr_storage peer;  /* REQUEST, CONNECTED */
	uint32_t inbound_reads;        /* REQUEST: the limits that the peer offers; CONNECTED: the limits in force */
	uint32_t outbound_reads;
	uint32_t private_length;
	uint32_t reserved;
	unsigned char private_data[NDX_MAX_PRIVATE_DATA];
	char text[256];                /* FAILED, SHUTDOWN: the cause in words */
};

/* ndx_event_queue_create makes a queue of events. One queue may serve any number of connectors and listeners of any adapters. */
NDX_API ndx_status ndx_event_queue_create(ndx_event_queue *queue);
/* ndx_event_queue_close closes a queue. Connectors and listeners that report to it lose their events. */
NDX_API ndx_status ndx_event_queue_close(ndx_event_queue queue);
/* ndx_event_queue_descriptor returns a file descriptor that is readable while the queue has events. Do not read, write or close it. */
NDX_API ndx_status ndx_event_queue_descriptor(ndx_event_queue queue, int *fd);
/* ndx_event_queue_read moves the oldest event out of the queue. It returns 1, or 0 if there is none after timeout_ms (0: do not wait; < 0:
 * wait for ever). */
NDX_API int32_t ndx_event_queue_read(ndx_event_queue queue, struct ndx_event *event, int32_t timeout_ms);

/* ---- Listeners and connectors ---- */

/* What a side tells its peer with a connection. Limits are silently reduced to those of the adapters and of the peer. */
struct ndx_connect_params {
	uint32_t size;
	uint32_t inbound_reads;  /* Reads of the peer that this side serves at the same time */
	uint32_t outbound_reads; /* Reads that this side wants to have in flight; further ones wait */
	uint32_t private_length;
	const void *private_data;
};

/* ndx_listen listens on addr: the adapter's address or the unspecified one, and an ND port, which is no UDP port; 0 selects a free one.
 * backlog bounds the requests that were not answered; 0 selects the maximum. Each request is an event with the cookie.
 *
 * Failures: INVALID_ADDRESS, SHARING_VIOLATION (the port is in use), TOO_MANY_ADDRESSES, INSUFFICIENT_RESOURCES, DEVICE_REMOVED. */
NDX_API ndx_status ndx_listen(ndx_adapter adapter, const struct sockaddr *addr, uint32_t backlog, ndx_event_queue queue, uint64_t cookie,
	ndx_listener *listener);
NDX_API ndx_status ndx_listener_address(ndx_listener listener, struct sockaddr_storage *addr);
/* ndx_listener_close refuses later requests. Requests in the event queue that were not read are refused and removed. Connectors of
 * requests that were read stay. */
NDX_API ndx_status ndx_listener_close(ndx_listener listener);

/* ndx_connector_create makes a connector, which makes one connection for one queue pair. */
NDX_API ndx_status ndx_connector_create(ndx_adapter adapter, ndx_event_queue queue, uint64_t cookie, ndx_connector *connector);
/* ndx_connector_events changes the queue and the cookie of later events, and of events that were not read. A connector of a request begins
 * with the queue and the cookie of its listener. */
NDX_API ndx_status ndx_connector_events(ndx_connector connector, ndx_event_queue queue, uint64_t cookie);
/* ndx_connector_bind binds a local address before ndx_connect; port 0 selects a free one. It is not needed. */
NDX_API ndx_status ndx_connector_bind(ndx_connector connector, const struct sockaddr *addr);
/* ndx_connect connects to a listener's address. Its end is an event: CONNECTED, or FAILED with CONNECTION_REFUSED (no listener, backlog
 * full, or rejected: private data), IO_TIMEOUT (silence), HOST_UNREACHABLE, NETWORK_UNREACHABLE, and others. After FAILED with one of these
 * four, ndx_connect may be called again. params may be NULL.
 *
 * Failures at once: as for connect of NetworkDirect: CONNECTION_ACTIVE, CONNECTION_INVALID, INVALID_DEVICE_STATE (the queue pair was used),
 * BAD_NETWORK_NAME, INVALID_ADDRESS (another address family), INVALID_BUFFER_SIZE (private data), DEVICE_REMOVED. */
NDX_API ndx_status ndx_connect(ndx_connector connector, ndx_qp qp, const struct sockaddr *peer, const struct ndx_connect_params *params);
/* ndx_accept accepts a request. Its end is an event, CONNECTED or FAILED. Post receives before. */
NDX_API ndx_status ndx_accept(ndx_connector connector, ndx_qp qp, const struct ndx_connect_params *params);
/* ndx_reject refuses a request. The peer gets FAILED with CONNECTION_REFUSED and the private data. Close the connector afterwards. */
NDX_API ndx_status ndx_reject(ndx_connector connector, const void *private_data, uint32_t length);
/* ndx_disconnect ends a connection gracefully: outstanding requests of this side end with CANCELED and the peer gets SHUTDOWN. Its end is an
 * event, DISCONNECTED, after the peer has disconnected, too: within 10 seconds. */
NDX_API ndx_status ndx_disconnect(ndx_connector connector);
/* ndx_connector_local and ndx_connector_peer return the addresses, from the attempt or request until the end of the connection. */
NDX_API ndx_status ndx_connector_local(ndx_connector connector, struct sockaddr_storage *addr);
NDX_API ndx_status ndx_connector_peer(ndx_connector connector, struct sockaddr_storage *addr);
/* ndx_connector_close ends an attempt, refuses a request that was not answered, and ends a connection for both sides. Events of the
 * connector that were not read are removed: after the call no event has its cookie. */
NDX_API ndx_status ndx_connector_close(ndx_connector connector);

#ifdef __cplusplus
}
#endif
#endif
