package ndmetrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ndxdp/ndxdp/internal/buildinfo"
	"github.com/ndxdp/ndxdp/nd"
)

// Handler serves only the metrics of an adapter. A program with a registry registers a Collector there instead. It panics if the
// adapter is nil.
func Handler(a *nd.Adapter) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(a)) // a new registry accepts every collector
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// Collector reads an adapter's counters at every scrape. Every metric has the adapter's address as label adapter, so that a
// registry can have several adapters. There are no metrics of single connections, because they would be too many series; see
// package ndinspect.
type Collector struct {
	adapter *nd.Adapter
	drops   *prometheus.Desc
	limited *prometheus.Desc
	packets *prometheus.Desc
	bytes   *prometheus.Desc
	open    *prometheus.Desc
	build   *prometheus.Desc // constant facts are labels of build and path
	path    *prometheus.Desc
	done    *prometheus.Desc
	payload *prometheus.Desc
	latency *prometheus.Desc
	counts  []count
}

// count is a counter without further labels.
type count struct {
	desc *prometheus.Desc
	of   func(*nd.Stats) uint64
}

// NewCollector returns a collector for an adapter. It may outlive the adapter, whose counters then stay constant. The label adapter
// is its address, so a second adapter of the same address needs another registry. It panics if the adapter is nil.
func NewCollector(a *nd.Adapter) *Collector {
	if a == nil {
		panic("ndmetrics: the adapter is nil: open one with nd.OpenAdapter")
	}
	labels := prometheus.Labels{"adapter": a.QueryAddressList()[0].String()}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("ndxdp_"+name, help, variable, labels)
	}
	c := &Collector{
		adapter: a,
		drops:   desc("drops_total", "Packets that were not used, by reason.", "reason"),
		limited: desc("connection_limited_seconds_total", "Time during which connections could not send more, by cause; summed over connections.", "by"),
		packets: desc("packets_total", "ND packets.", "direction"),
		bytes:   desc("packet_bytes_total", "Bytes of ND packets with their headers, without UDP's and below.", "direction"),
		open:    desc("connections", "Connections, including connections that are being made or closed."),
		build:   desc("build_info", "Always 1; which build of ndxdp this is.", "version", "commit", "go", "platform"),
		path:    desc("datapath_info", "Always 1; how packets move.", "interface", "driver", "datapath", "zero_copy"),
		done:    desc("operations_total", "Requests of this side and receives that ended well.", "kind"),
		payload: desc("payload_bytes_total", "Bytes that operations moved.", "kind"),
		latency: desc("request_latency_seconds", "Time of sampled requests from post to result: about one in a millisecond of each connection."),
	}
	for _, x := range plainCounters() {
		c.counts = append(c.counts, count{desc(x.name, x.help), x.of})
	}
	return c
}

// plainCounter is a counter without further labels: its name and its value.
type plainCounter struct {
	name, help string
	of         func(*nd.Stats) uint64
}

func plainCounters() []plainCounter {
	return []plainCounter{
		{"connections_established_total", "Connections that were opened.", func(s *nd.Stats) uint64 { return s.Connections.Established }},
		{"connections_refused_total", "Connection requests that were refused.", func(s *nd.Stats) uint64 { return s.Connections.Refused }},
		{"connections_lost_total", "Connections that silence, a fault or a restart of the peer ended.", func(s *nd.Stats) uint64 { return s.Connections.Lost }},
		{"connections_moved_total", "Connections that followed their packets to another NIC queue.", func(s *nd.Stats) uint64 { return s.Connections.Moved }},
		{"connections_challenged_total", "Connection requests that had to prove their address.", func(s *nd.Stats) uint64 { return s.Requests.CookiesSent }},
		{"connection_cookies_refused_total", "Connection requests whose proof of their address was wrong or too old.", func(s *nd.Stats) uint64 { return s.Requests.CookiesRefused }},
		{"connection_requests_over_share_total", "Connection requests refused or dropped because their source has used its share.", func(s *nd.Stats) uint64 { return s.Requests.SourceLimited }},
		{"connection_requests_handed_over_total", "Connection requests given to the adapter of this machine that has their ND port.", func(s *nd.Stats) uint64 { return s.Requests.HandedOver }},
		{"tls_handshakes_total", "TLS handshakes that succeeded.", func(s *nd.Stats) uint64 { return s.TLS.Handshakes }},
		{"tls_handshakes_failed_total", "TLS handshakes that failed: by a check of this side, by the peer's alert, or by silence.", func(s *nd.Stats) uint64 { return s.TLS.HandshakesFailed }},
		{"tls_key_updates_total", "New keys for what encrypted connections send.", func(s *nd.Stats) uint64 { return s.TLS.KeyUpdates }},
		{"connections_contested_total", "Times a connection had to prove itself alive, because a request wanted its ND endpoints.", func(s *nd.Stats) uint64 { return s.Connections.Contested }},
		{"connection_proof_pings_total", "Packets sent to have contested connections prove themselves.", func(s *nd.Stats) uint64 { return s.Connections.ProofPings }},
		{"connection_ports_unheld_total", "Connections whose peer's kernel said that no process holds the peer's UDP port.", func(s *nd.Stats) uint64 { return s.Connections.PortsUnheld }},
		{"connections_forgotten_total", "Ended connections whose record was reused for another.", func(s *nd.Stats) uint64 { return s.Connections.Forgotten }},
		{"illegal_transitions_total", "Forbidden state transitions: not 0 only if the library has a bug.", func(s *nd.Stats) uint64 { return s.IllegalTransitions }},
		{"acks_sent_total", "Packets sent only to acknowledge.", func(s *nd.Stats) uint64 { return s.Packets.Acks }},
		{"packets_lost_total", "Packets declared lost because later packets arrived.", func(s *nd.Stats) uint64 { return s.Recovery.Lost }},
		{"packets_resent_total", "Packets sent again.", func(s *nd.Stats) uint64 { return s.Recovery.Retransmits }},
		{"packets_resent_lost_total", "Packets sent again because later packets arrived.", func(s *nd.Stats) uint64 { return s.Recovery.ResentLost }},
		{"packets_resent_probe_total", "Packets sent again by probe timeouts (PTO).", func(s *nd.Stats) uint64 { return s.Recovery.ResentProbe }},
		{"packets_resent_timeout_total", "Packets sent again by time-outs.", func(s *nd.Stats) uint64 { return s.Recovery.ResentTimeout }},
		{"packets_resent_receive_total", "Packets sent again because the peer had no receive.", func(s *nd.Stats) uint64 { return s.Recovery.ResentReceive }},
		{"packets_duplicate_total", "Packets that peers received twice: sent again in vain.", func(s *nd.Stats) uint64 { return s.Recovery.Duplicates }},
		{"spins_total", "Times an application polled for packets before it slept.", func(s *nd.Stats) uint64 { return s.Waits.Spins }},
		{"spin_hits_total", "Times this polling spared a sleep.", func(s *nd.Stats) uint64 { return s.Waits.SpinHits }},
		{"sleeps_total", "Sleeps of applications until a packet came.", func(s *nd.Stats) uint64 { return s.Waits.Sleeps }},
		{"packets_relayed_total", "Packets that landed on another NIC queue than their connection's.", func(s *nd.Stats) uint64 { return s.Packets.Relayed }},
		{"tail_probes_total", "Packets sent by a probe timeout (PTO) because the last packets were not acknowledged.", func(s *nd.Stats) uint64 { return s.Recovery.Probes }},
		{"timeouts_total", "Retransmission time-outs.", func(s *nd.Stats) uint64 { return s.Recovery.Timeouts }},
		{"timeouts_spurious_total", "Time-outs before which nothing had been lost.", func(s *nd.Stats) uint64 { return s.Recovery.Spurious }},
		{"packets_marked_total", "Packets that routers marked (ECN), as peers reported.", func(s *nd.Stats) uint64 { return s.Packets.Marked }},
		{"receive_pauses_total", "Times that a peer had no receive for a message.", func(s *nd.Stats) uint64 { return s.Connections.Pauses }},
		{"transmit_frame_waits_total", "Times that a packet waited for a transmit frame.", func(s *nd.Stats) uint64 { return s.Packets.NoFrames }},
		{"path_probes_total", "Packets sent to find a larger packet size.", func(s *nd.Stats) uint64 { return s.Paths.Probes }},
		{"path_raises_total", "Larger packet sizes found.", func(s *nd.Stats) uint64 { return s.Paths.Raised }},
		{"source_port_challenges_total", "Packets that asked a peer to prove another source port.", func(s *nd.Stats) uint64 { return s.Paths.Challenges }},
		{"source_ports_proven_total", "Source ports that peers proved.", func(s *nd.Stats) uint64 { return s.Paths.Proven }},
		{"packets_out_in_runs_total", "Packets that left kernel sockets in GSO batches.", func(s *nd.Stats) uint64 { return s.Sockets.InBatches }},
		{"packets_in_ring_total", "Packets that arrived in a ring beside a kernel socket.", func(s *nd.Stats) uint64 { return s.Sockets.InRing }},
		{"packets_in_merged_total", "Packets that arrived at kernel sockets merged.", func(s *nd.Stats) uint64 { return s.Sockets.Merged }},
		{"packets_in_local_total", "Packets of the adapter to itself, and on AF_XDP of other peers on the machine.", func(s *nd.Stats) uint64 { return s.Packets.LocalIn }},
		{"packets_out_local_total", "Packets to the adapter itself, and on AF_XDP to other peers on the machine.", func(s *nd.Stats) uint64 { return s.Packets.LocalOut }},
		{"runs_paused_total", "Times packets of a connection left one by one for some time.", func(s *nd.Stats) uint64 { return s.Sockets.BatchesPaused }},
		{"bulk_packets_in_total", "ND packets that came by the bulk path.", func(s *nd.Stats) uint64 { return s.Bulk.PacketsIn }},
		{"bulk_packets_out_total", "ND packets that left by the bulk path.", func(s *nd.Stats) uint64 { return s.Bulk.PacketsOut }},
		{"bulk_packet_bytes_in_total", "Bytes of ND packets that came by the bulk path.", func(s *nd.Stats) uint64 { return s.Bulk.BytesIn }},
		{"bulk_packet_bytes_out_total", "Bytes of ND packets that left by the bulk path.", func(s *nd.Stats) uint64 { return s.Bulk.BytesOut }},
		{"bulk_probes_total", "Packets sent to find out whether the bulk path works.", func(s *nd.Stats) uint64 { return s.Bulk.Probes }},
		{"bulk_proven_total", "Times the bulk path of a connection was proven.", func(s *nd.Stats) uint64 { return s.Bulk.Proven }},
		{"bulk_left_unanswered_total", "Times a connection left the bulk path because probes stayed without an answer.", func(s *nd.Stats) uint64 { return s.Bulk.Unanswered }},
		{"bulk_left_timeout_total", "Times a connection left the bulk path because nothing came back.", func(s *nd.Stats) uint64 { return s.Bulk.TimedOut }},
		{"bulk_left_loss_total", "Times a connection left the bulk path because most packets were lost.", func(s *nd.Stats) uint64 { return s.Bulk.Lossy }},
		{"bulk_long_proven_total", "Times a connection began to send long packets.", func(s *nd.Stats) uint64 { return s.Bulk.Long }},
		{"bulk_long_left_total", "Times a connection stopped sending long packets, because they or their probes were lost.", func(s *nd.Stats) uint64 { return s.Bulk.LongLeft }},
		{"source_ports_changed_total", "Own source ports given up because nothing came back.", func(s *nd.Stats) uint64 { return s.Paths.PortsChanged }},
		{"path_black_holes_total", "Paths that stopped to carry a packet size.", func(s *nd.Stats) uint64 { return s.Paths.BlackHoles }},
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.drops, c.limited, c.packets, c.bytes, c.open, c.build, c.path, c.done, c.payload, c.latency} {
		ch <- d
	}
	for _, x := range c.counts {
		ch <- x.desc
	}
}

// Collect implements prometheus.Collector. Every reason and limit has a series from the first scrape, so that rates begin at zero.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.adapter.Stats()
	c.collect(&s, ch)
	b, d := buildinfo.Read(), c.adapter.Datapath()
	ch <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, b.Version, b.Commit, b.Go, b.Platform)
	ch <- prometheus.MustNewConstMetric(c.path, prometheus.GaugeValue, 1, d.Interface, d.Driver, d.Datapath.String(), strconv.FormatBool(d.ZeroCopy))
}

// collect sends the adapter's counters.
func (c *Collector) collect(s *nd.Stats, ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, label...)
	}
	for _, reason := range nd.DropReasons() {
		counter(c.drops, float64(s.Drops[reason]), reason)
	}
	for _, by := range nd.LimitNames() {
		counter(c.limited, s.LimitedSeconds[by], by)
	}
	counter(c.packets, float64(s.Packets.In), "in")
	counter(c.packets, float64(s.Packets.Out), "out")
	counter(c.bytes, float64(s.Packets.BytesIn), "in")
	counter(c.bytes, float64(s.Packets.BytesOut), "out")
	ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(s.Connections.Open))
	for _, x := range c.counts {
		counter(x.desc, float64(x.of(s)))
	}
	c.requests(s, counter, ch)
}

// requests sends the counts and latencies of requests.
func (c *Collector) requests(s *nd.Stats, counter func(*prometheus.Desc, float64, ...string), ch chan<- prometheus.Metric) {
	for _, kind := range nd.OperationNames() {
		counter(c.done, float64(s.Operations.Done[kind]), kind)
	}
	for _, kind := range nd.PayloadNames() {
		counter(c.payload, float64(s.Operations.Bytes[kind]), kind)
	}
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range nd.LatencyBounds() {
		sum += s.Operations.Latency.Counts[i]
		buckets[bound.Seconds()] = sum
	}
	sum += s.Operations.Latency.Counts[len(s.Operations.Latency.Counts)-1]
	ch <- prometheus.MustNewConstHistogram(c.latency, sum, s.Operations.Latency.Sum.Seconds(), buckets)
}
