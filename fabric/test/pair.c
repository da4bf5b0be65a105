/* pair.c: see pair.h. */
#include "pair.h"

struct fi_info *usual_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	check(hints, "no memory");
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("ndxdp");
	return hints;
}

size_t expect_event(struct fid_eq *eq, uint32_t event, struct fi_eq_cm_entry *entry, size_t len)
{
	struct fi_eq_err_entry error = {0};
	uint32_t got = 0;
	ssize_t n = fi_eq_sread(eq, &got, entry, len, WAIT_MS, 0);

	if (n == -FI_EAVAIL)
		fi_eq_readerr(eq, &error, 0);
	check(n >= (ssize_t) sizeof(*entry), "expected event %u: %s, %s", event, fi_strerror((int) -n), fi_strerror(error.err));
	check(got == event, "event %u instead of %u", got, event);
	return (size_t) n - sizeof(*entry);
}

struct fi_cq_data_entry completion(struct fid_cq *cq)
{
	struct fi_cq_data_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t n = fi_cq_sread(cq, &entry, 1, NULL, WAIT_MS);

	if (n == -FI_EAVAIL)
		fi_cq_readerr(cq, &error, 0);
	check(n == 1, "%s, %s", fi_strerror((int) -n), fi_strerror(error.err));
	return entry;
}

struct fi_cq_err_entry failure(struct fid_cq *cq)
{
	struct fi_cq_data_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t n = fi_cq_sread(cq, &entry, 1, NULL, WAIT_MS);

	check(n == -FI_EAVAIL, "%zd instead of an error", n);
	must(fi_cq_readerr(cq, &error, 0));
	return error;
}

static void open_counters(struct pair *p, struct side *s)
{
	struct fi_cntr_attr attr = {0};

	must(fi_cntr_open(p->domain, &attr, &s->sent, NULL));
	must(fi_cntr_open(p->domain, &attr, &s->received, NULL));
	must(fi_cntr_open(p->domain, &attr, &s->read, NULL));
	must(fi_cntr_open(p->domain, &attr, &s->wrote, NULL));
	must(fi_ep_bind(s->ep, &s->sent->fid, FI_SEND));
	must(fi_ep_bind(s->ep, &s->received->fid, FI_RECV));
	must(fi_ep_bind(s->ep, &s->read->fid, FI_READ));
	must(fi_ep_bind(s->ep, &s->wrote->fid, FI_WRITE));
}

void side_open(struct pair *p, struct side *s, struct fi_info *info)
{
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr tx = p->options.cq, rx = p->options.cq;
	uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

	must(fi_eq_open(p->fabric, &eq, &s->eq, NULL));
	must(fi_cq_open(p->domain, &tx, &s->tx, NULL));
	must(fi_cq_open(p->domain, &rx, &s->rx, NULL));
	must(fi_endpoint(p->domain, info, &s->ep, s));
	must(fi_ep_bind(s->ep, &s->eq->fid, 0));
	must(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT | p->options.cq_flags));
	must(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV | p->options.cq_flags));
	if (p->options.shared_receive) {
		must(fi_srx_context(p->domain, info->rx_attr, &s->srx, NULL));
		must(fi_ep_bind(s->ep, &s->srx->fid, 0));
	}
	if (p->options.counters)
		open_counters(p, s);
	must(fi_enable(s->ep));
	s->buf = calloc(1, BUF);
	must(fi_mr_reg(p->domain, s->buf, BUF, access, 0, 0, 0, &s->mr, NULL));
	s->desc = fi_mr_desc(s->mr);
}

void side_close(struct side *s)
{
	struct fid *fids[] = {
		s->ep ? &s->ep->fid : NULL,
		s->srx ? &s->srx->fid : NULL,
		s->sent ? &s->sent->fid : NULL,
		s->received ? &s->received->fid : NULL,
		s->read ? &s->read->fid : NULL,
		s->wrote ? &s->wrote->fid : NULL,
		s->tx ? &s->tx->fid : NULL,
		s->rx ? &s->rx->fid : NULL,
		s->eq ? &s->eq->fid : NULL,
		s->mr ? &s->mr->fid : NULL,
	};

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		if (fids[i])
			must(fi_close(fids[i]));
	}
	free(s->buf);
	memset(s, 0, sizeof(*s));
}

void pair_listen(struct pair *p, const struct options *options)
{
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
	struct fi_info *hints;
	size_t len = sizeof(p->address);

	memset(p, 0, sizeof(*p));
	if (options)
		p->options = *options;
	if (p->options.cq.format == FI_CQ_FORMAT_UNSPEC)
		p->options.cq.format = FI_CQ_FORMAT_DATA;
	if (p->options.cq.wait_obj == FI_WAIT_NONE)
		p->options.cq.wait_obj = FI_WAIT_UNSPEC;
	hints = p->options.hints ? p->options.hints : usual_hints();
	must(fi_getinfo(API, p->options.address ? p->options.address : "127.0.0.1", NULL, FI_SOURCE, hints, &p->info));
	must(fi_fabric(p->info->fabric_attr, &p->fabric, NULL));
	must(fi_domain(p->fabric, p->info, &p->domain, NULL));
	must(fi_eq_open(p->fabric, &eq, &p->listening, NULL));
	must(fi_passive_ep(p->fabric, p->info, &p->pep, NULL));
	must(fi_pep_bind(p->pep, &p->listening->fid, 0));
	must(fi_listen(p->pep));
	must(fi_getname(&p->pep->fid, &p->address, &len));
	fi_freeinfo(hints);
}

void pair_connect(struct pair *p)
{
	struct fi_eq_cm_entry request, connected;

	side_open(p, &p->a, p->info);
	must(fi_connect(p->a.ep, &p->address, NULL, 0));
	expect_event(p->listening, FI_CONNREQ, &request, sizeof(request));
	side_open(p, &p->b, request.info);
	fi_freeinfo(request.info);
	must(fi_accept(p->b.ep, NULL, 0));
	expect_event(p->a.eq, FI_CONNECTED, &connected, sizeof(connected));
	check(connected.fid == &p->a.ep->fid, "FI_CONNECTED names another endpoint");
	expect_event(p->b.eq, FI_CONNECTED, &connected, sizeof(connected));
}

void pair_open(struct pair *p, const struct options *options)
{
	pair_listen(p, options);
	pair_connect(p);
}

void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	must(fi_close(&p->pep->fid));
	must(fi_close(&p->listening->fid));
	must(fi_close(&p->domain->fid));
	must(fi_close(&p->fabric->fid));
	fi_freeinfo(p->info);
}
