/* hints.c: compares what an application asks for with what the provider offers, and reduces an offer to what was asked for. */
#include "provider.h"

/* Reads return what earlier requests wrote, and writes and messages take effect in the order of posting. A request after a Read may take
 * effect before the Read: there is no FI_ORDER_WAR and no FI_ORDER_SAR. */
#define MSG_ORDER \
	(FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR | \
		FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW)
#define COMP_ORDER (FI_ORDER_STRICT | FI_ORDER_DATA)
#define TX_OP_FLAGS (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define RX_OP_FLAGS FI_COMPLETION
#define RMA_TARGET (FI_REMOTE_READ | FI_REMOTE_WRITE)
/* Without FI_MR_VIRT_ADDR, ofi_rxm reads large messages from the beginning of the region that the application registered, wherever the
 * message is. */
#define MR_MODE (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static uint64_t complete_caps(uint64_t caps)
{
	if (!caps)
		return ALL_CAPS;
	if ((caps & FI_MSG) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if ((caps & FI_RMA) && !(caps & (FI_READ | FI_WRITE | RMA_TARGET)))
		caps |= FI_READ | FI_WRITE | RMA_TARGET;
	return caps | DOMAIN_CAPS;
}

/* needed_mr_mode returns the mode bits that an application with these capabilities must support. */
static int needed_mr_mode(uint64_t caps)
{
	return (caps & FI_RMA) && (caps & RMA_TARGET) ? MR_MODE : FI_MR_LOCAL;
}

static bool basic_mr(uint32_t version, const struct fi_info *hints)
{
	int mode = hints && hints->domain_attr ? hints->domain_attr->mr_mode : FI_MR_UNSPEC;

	return mode == FI_MR_BASIC || (version < FI_VERSION(1, 5) && mode == FI_MR_UNSPEC);
}

static bool mr_mode_fits(uint32_t version, const struct fi_info *hints)
{
	int mode = hints->domain_attr ? hints->domain_attr->mr_mode : FI_MR_UNSPEC;
	int needed = needed_mr_mode(complete_caps(hints->caps));

	if (!(hints->mode & FI_LOCAL_MR) && !(mode & FI_MR_LOCAL))
		return false;
	if (basic_mr(version, hints))
		return true;
	if (version < FI_VERSION(1, 5) || (mode & (FI_MR_BASIC | FI_MR_SCALABLE)))
		return false;
	return mode == FI_MR_UNSPEC || ((mode | FI_MR_LOCAL) & needed) == needed;
}

/* cq_data_size: a Write with data takes a receive of the peer. An application that does not know this (FI_RX_CQ_DATA) is offered no data
 * together with RMA. */
static size_t cq_data_size(const struct fi_info *hints)
{
	uint64_t mode = !hints ? FI_RX_CQ_DATA : hints->mode | (hints->rx_attr ? hints->rx_attr->mode : 0);

	return (mode & FI_RX_CQ_DATA) || !(complete_caps(hints->caps) & FI_RMA) ? CQ_DATA_SIZE : 0;
}

static const char *check_tx(const struct fi_tx_attr *tx)
{
	if (tx->caps & ~(uint64_t) (TX_CAPS | DOMAIN_CAPS))
		return "tx_attr->caps";
	if (tx->op_flags & ~TX_OP_FLAGS)
		return "tx_attr->op_flags";
	if (tx->msg_order & ~MSG_ORDER)
		return "tx_attr->msg_order";
	if (tx->comp_order & ~COMP_ORDER)
		return "tx_attr->comp_order";
	if (tx->inject_size > MAX_INJECT)
		return "tx_attr->inject_size";
	if (tx->size > MAX_QUEUE)
		return "tx_attr->size";
	if (tx->iov_limit > MAX_IOV)
		return "tx_attr->iov_limit";
	if (tx->rma_iov_limit > MAX_RMA_IOV)
		return "tx_attr->rma_iov_limit";
	return NULL;
}

static const char *check_rx(const struct fi_rx_attr *rx)
{
	if (rx->caps & ~(uint64_t) (RX_CAPS | DOMAIN_CAPS))
		return "rx_attr->caps";
	if (rx->op_flags & ~RX_OP_FLAGS)
		return "rx_attr->op_flags";
	if (rx->msg_order & ~MSG_ORDER)
		return "rx_attr->msg_order";
	if (rx->comp_order & ~COMP_ORDER)
		return "rx_attr->comp_order";
	if (rx->total_buffered_recv)
		return "rx_attr->total_buffered_recv";
	if (rx->size > MAX_QUEUE)
		return "rx_attr->size";
	if (rx->iov_limit > MAX_IOV)
		return "rx_attr->iov_limit";
	return NULL;
}

static const char *check_ep(const struct fi_ep_attr *ep)
{
	if (ep->type != FI_EP_UNSPEC && ep->type != FI_EP_MSG)
		return "ep_attr->type";
	if (ep->protocol != FI_PROTO_UNSPEC && ep->protocol != FI_PROTO_NETWORKDIRECT)
		return "ep_attr->protocol";
	if (ep->protocol_version > 1)
		return "ep_attr->protocol_version";
	if (ep->max_msg_size > MAX_MESSAGE)
		return "ep_attr->max_msg_size";
	if (ep->msg_prefix_size)
		return "ep_attr->msg_prefix_size";
	if (ep->max_order_raw_size > MAX_MESSAGE || ep->max_order_waw_size > MAX_MESSAGE || ep->max_order_war_size)
		return "ep_attr->max_order";
	if (ep->tx_ctx_cnt > 1)
		return "ep_attr->tx_ctx_cnt";
	if (ep->rx_ctx_cnt > 1 && ep->rx_ctx_cnt != FI_SHARED_CONTEXT)
		return "ep_attr->rx_ctx_cnt";
	if (ep->auth_key_size)
		return "ep_attr->auth_key_size";
	return NULL;
}

static const char *check_domain(const struct fi_info *hints)
{
	const struct fi_domain_attr *domain = hints->domain_attr;

	if (domain->cq_data_size > cq_data_size(hints))
		return "domain_attr->cq_data_size (without FI_RX_CQ_DATA in mode, there is none together with FI_RMA)";
	if (domain->caps & ~(uint64_t) DOMAIN_CAPS)
		return "domain_attr->caps";
	if (domain->auth_key_size)
		return "domain_attr->auth_key_size";
	if (domain->mr_iov_limit > 1)
		return "domain_attr->mr_iov_limit";
	if (domain->mr_cnt > MAX_REGIONS)
		return "domain_attr->mr_cnt";
	if (domain->cntr_cnt > MAX_COUNTERS)
		return "domain_attr->cntr_cnt";
	if (domain->max_ep_tx_ctx > 1 || domain->max_ep_rx_ctx > 1 || domain->max_ep_stx_ctx)
		return "domain_attr->max_ep_tx_ctx";
	return NULL;
}

static bool format_fits(uint32_t format)
{
	return format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

const char *hints_check(uint32_t version, const struct fi_info *hints)
{
	const char *wrong = NULL;

	if (!hints)
		return NULL;
	if (hints->caps & ~(uint64_t) ALL_CAPS)
		return "caps";
	if (!format_fits(hints->addr_format))
		return "addr_format";
	if (!mr_mode_fits(version, hints))
		return "domain_attr->mr_mode: it needs FI_MR_LOCAL, and for RMA also FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY";
	if (hints->tx_attr)
		wrong = check_tx(hints->tx_attr);
	if (!wrong && hints->rx_attr)
		wrong = check_rx(hints->rx_attr);
	if (!wrong && hints->ep_attr)
		wrong = check_ep(hints->ep_attr);
	if (!wrong && hints->domain_attr)
		wrong = check_domain(hints);
	return wrong;
}

static void apply_domain(uint32_t version, const struct fi_info *hints, struct fi_info *info)
{
	struct fi_domain_attr *domain = info->domain_attr;
	const struct fi_domain_attr *asked = hints ? hints->domain_attr : NULL;

	domain->cq_data_size = cq_data_size(hints);
	if (basic_mr(version, hints)) {
		domain->mr_mode = FI_MR_BASIC;
		info->mode |= FI_LOCAL_MR;
	} else {
		domain->mr_mode = asked ? MR_MODE & asked->mr_mode : needed_mr_mode(info->caps);
		if (!(domain->mr_mode & FI_MR_LOCAL))
			info->mode |= FI_LOCAL_MR;
	}
	if (!asked)
		return;
	if (asked->threading != FI_THREAD_UNSPEC)
		domain->threading = asked->threading;
	if (asked->control_progress != FI_PROGRESS_UNSPEC)
		domain->control_progress = asked->control_progress;
	if (asked->data_progress != FI_PROGRESS_UNSPEC)
		domain->data_progress = asked->data_progress;
	if (asked->resource_mgmt != FI_RM_UNSPEC)
		domain->resource_mgmt = asked->resource_mgmt;
	domain->av_type = asked->av_type;
}

static void apply_queues(const struct fi_info *hints, struct fi_info *info)
{
	if (hints->tx_attr) {
		info->tx_attr->op_flags = hints->tx_attr->op_flags;
		if (hints->tx_attr->size)
			info->tx_attr->size = hints->tx_attr->size;
		info->tx_attr->tclass = hints->tx_attr->tclass;
	}
	if (hints->rx_attr) {
		info->rx_attr->op_flags = hints->rx_attr->op_flags;
		if (hints->rx_attr->size)
			info->rx_attr->size = hints->rx_attr->size;
	}
	if (hints->ep_attr && hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT)
		info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
}

void hints_apply(uint32_t version, const struct fi_info *hints, struct fi_info *info)
{
	info->caps = complete_caps(hints ? hints->caps : 0);
	info->tx_attr->caps = info->caps & TX_CAPS;
	info->rx_attr->caps = info->caps & RX_CAPS;
	info->tx_attr->msg_order = info->rx_attr->msg_order = MSG_ORDER;
	info->tx_attr->comp_order = info->rx_attr->comp_order = COMP_ORDER;
	if (!hints || (hints->mode & FI_RX_CQ_DATA))
		info->mode |= FI_RX_CQ_DATA;
	if (cq_data_size(hints) && (info->caps & FI_RMA))
		info->rx_attr->mode |= FI_RX_CQ_DATA;
	apply_domain(version, hints, info);
	if (hints)
		apply_queues(hints, info);
}
