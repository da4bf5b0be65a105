/* none.h: operations that are not offered, for the tables of operations. */
#ifndef NDXDP_FI_NONE_H
#define NDXDP_FI_NONE_H

#include "provider.h"

int none_bind(struct fid *fid, struct fid *other, uint64_t flags);
int none_control(struct fid *fid, int command, void *arg);
int none_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int none_cm_setname(fid_t fid, void *addr, size_t addrlen);
int none_cm_getname(fid_t fid, void *addr, size_t *addrlen);
int none_cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int none_cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int none_cm_listen(struct fid_pep *pep);
int none_cm_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int none_cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
int none_cm_shutdown(struct fid_ep *ep, uint64_t flags);
int none_cm_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context);
ssize_t none_ep_cancel(fid_t fid, void *context);
int none_ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen);
int none_ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen);
int none_ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context);
int none_ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
ssize_t none_ep_rx_size_left(struct fid_ep *ep);
ssize_t none_ep_tx_size_left(struct fid_ep *ep);
ssize_t none_msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, void *context);
ssize_t none_msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr, void *context);
ssize_t none_msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t none_msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr);
ssize_t none_msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest_addr, void *context);
ssize_t none_msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr);

extern struct fi_ops_cm none_cm;
extern struct fi_ops_ep none_ep;

#endif
