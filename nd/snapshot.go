package nd

import (
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// Limits is how long each cause blocked a connection from sending more. A connection has exactly one limit at any time, so they sum
// up to its age. In JSON all durations are nanoseconds.
type Limits struct {
	Application time.Duration `json:"application_ns"` // no unsent request was posted
	Receive     time.Duration `json:"receive_ns"`     // the peer had no receive for the next Send
	Read        time.Duration `json:"read_ns"`        // the outbound read limit was used up, or a read fence waited
	Fabric      time.Duration `json:"fabric_ns"`      // the window for the path was full: delay, loss, congestion marks
	Endpoint    time.Duration `json:"endpoint_ns"`    // the window for the peer was full: its receive memory
	Ring        time.Duration `json:"ring_ns"`        // there was no transmit frame: the interface does not send fast enough
	CPU         time.Duration `json:"cpu_ns"`         // the engine was busy with other connections, or its poll ended
}

// LimitNames returns the names of the limits in metrics and reports, in the order of the fields of Limits.
func LimitNames() []string {
	names := make([]string, provider.NumLimits)
	for i := range names {
		names[i] = provider.Limit(i).String()
	}
	return names
}

// By returns the limits in the order of LimitNames.
func (l Limits) By() []time.Duration {
	return []time.Duration{l.Application, l.Receive, l.Read, l.Fabric, l.Endpoint, l.Ring, l.CPU}
}

// Latency is the time that initiator requests spend in each phase: weighted means of samples, about one request per millisecond. Zero means
// that there was no sample after the connection was last idle for a second.
type Latency struct {
	Queueing   time.Duration `json:"queueing_ns"`    // from the post until the engine transmits the first packet
	Wire       time.Duration `json:"wire_ns"`        // from there to the last acknowledgement, without RemoteHold
	RemoteHold time.Duration `json:"remote_hold_ns"` // time that the peer held the acknowledgement; for a Read, until its answer was sent
	Completion time.Duration `json:"completion_ns"`  // from the result until GetResults returned it; measured for the completion queue
}

// ConnectionInfo is the state of one connection of an adapter at one moment.
type ConnectionInfo struct {
	ID     uint64         `json:"id,string"`      // id of this side
	PeerID uint64         `json:"peer_id,string"` // id of the peer; both ends show the same pair
	Local  netip.AddrPort `json:"local"`          // with ND ports
	Remote netip.AddrPort `json:"remote"`
	Queue  int            `json:"queue"`  // NIC queue of its engine
	State  string         `json:"state"`  // connecting, open or closing
	Active bool           `json:"active"` // this side called Connect
	Age    time.Duration  `json:"age_ns"` // time since it was established

	SmoothedRTT    time.Duration `json:"smoothed_rtt_ns"` // zero before the first sample
	MinRTT         time.Duration `json:"min_rtt_ns"`
	PathMTU        int           `json:"path_mtu_bytes"`          // largest ND packet known to arrive, without IP and UDP headers
	Window         int           `json:"window_packets"`          // packets that may be in flight now; zero while idle
	FabricWindow   int           `json:"fabric_window_packets"`   // congestion window
	EndpointWindow int           `json:"endpoint_window_packets"` // window of the peer's receiver
	InFlight       int           `json:"in_flight_packets"`
	BytesIn        uint64        `json:"bytes_in"` // of ND packets, including headers and retransmissions
	BytesOut       uint64        `json:"bytes_out"`
	Retransmits    uint64        `json:"retransmits"` // packets

	InitiatorDepth   int  `json:"initiator_depth"` // requests posted and not completed
	ReceiveDepth     int  `json:"receive_depth"`   // posted receives
	ReceivesShared   bool `json:"receives_shared"` // ReceiveDepth counts a shared receive queue
	OutstandingReads int  `json:"outstanding_reads"`
	Resting          bool `json:"resting"` // idle for a second or more

	// BulkLane is the state of the bulk path. It is "proven" if long messages use it. It is "unproven" if both ends have a bulk path that
	// may not be used. It is empty without a bulk path, and while the connection is idle.
	BulkLane string `json:"bulk_lane,omitempty"`

	// TLS describes the encryption; nil if the connection is not encrypted.
	TLS *TLSInfo `json:"tls,omitempty"`

	LimitedBy string  `json:"limited_by"` // present limit
	Limited   Limits  `json:"limited"`
	Latency   Latency `json:"latency"`
}

// TLSInfo describes the encryption of a connection.
type TLSInfo struct {
	Version  string `json:"version"`        // TLS 1.3
	Suite    string `json:"suite"`          // as crypto/tls names it
	Protocol string `json:"protocol"`       // of ALPN
	Peer     string `json:"peer,omitempty"` // first URI, DNS name or common name of the peer's certificate; empty without a certificate

	GenerationOut uint32 `json:"generation_out"` // of the present keys; 1 before the first key update
	GenerationIn  uint32 `json:"generation_in"`
	Forged        uint64 `json:"forged"` // packets with a wrong tag: forged, or damaged on the way
}

// Connections returns the state of every connection of the adapter, in no particular order. It allocates, and occupies each engine for some
// microseconds at a time.
func (a *Adapter) Connections() []ConnectionInfo {
	all := []ConnectionInfo{}
	for c := range a.verbs.Connections() {
		all = append(all, connectionInfo(c))
	}
	return all
}

// tlsInfo describes the encryption of a connection, or returns nil.
func tlsInfo(c *provider.ConnInfo) *TLSInfo {
	if c.Suite == 0 {
		return nil
	}
	info := &TLSInfo{
		Version: tls.VersionName(tls.VersionTLS13), Suite: tls.CipherSuiteName(c.Suite),
		GenerationOut: c.GenerationOut, GenerationIn: c.GenerationIn, Forged: c.Forged,
	}
	if state, ok := c.TLS.(tls.ConnectionState); ok {
		info.Protocol, info.Peer = state.NegotiatedProtocol, peerName(&state)
	}
	return info
}

// peerName returns a name of the peer for people.
func peerName(state *tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	cert := state.PeerCertificates[0]
	switch {
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	}
	return cert.Subject.CommonName
}

func connectionInfo(c *provider.ConnInfo) ConnectionInfo {
	d := &c.Limited
	return ConnectionInfo{
		TLS: tlsInfo(c),
		ID:  c.ID, PeerID: c.PeerID, Local: verbs.AddrPort(c.Local), Remote: verbs.AddrPort(c.Remote), Queue: c.Engine, State: c.State,
		Active: c.Active, Age: c.Age, SmoothedRTT: c.SmoothedRTT, MinRTT: c.MinRTT, PathMTU: c.PathMTU, Window: c.Window,
		FabricWindow: c.FabricWindow, EndpointWindow: c.EndpointWindow, InFlight: c.InFlight, BytesIn: c.BytesIn, BytesOut: c.BytesOut,
		Retransmits: c.Retransmits, InitiatorDepth: c.InitiatorDepth, ReceiveDepth: c.ReceiveDepth, ReceivesShared: c.ReceivesShared,
		OutstandingReads: c.OutstandingReads, Resting: c.Resting, BulkLane: c.BulkLane, LimitedBy: c.LimitedBy.String(),
		Limited: Limits{
			Application: d[provider.LimitApplication], Receive: d[provider.LimitReceive], Read: d[provider.LimitRead],
			Fabric: d[provider.LimitFabric], Endpoint: d[provider.LimitEndpoint], Ring: d[provider.LimitRing], CPU: d[provider.LimitCPU],
		},
		Latency: Latency{
			Queueing: c.Latency.Queueing, Wire: c.Latency.Wire, RemoteHold: c.Latency.Hold, Completion: c.Latency.Completion,
		},
	}
}

// DropVanished is the key of Stats.Drops for packets that the steering program redirected to a socket and that no socket received. It
// indicates a fault: the interface, its driver or a stacked device loses packets silently. Counts below 65 are not reported, because some
// packets are in transit at any moment. A broker's client does not have this counter.
const DropVanished = "vanished"

// dropNoSocket is the key for packets that arrived on a receive queue without a socket.
const dropNoSocket = "no_socket"

// deviceDrops are the reasons of packets that the device or the kernel dropped, in addition to the transport's reasons.
var deviceDrops = []string{
	"rx_dropped", "rx_ring_full", "fill_ring_empty", "tx_lost", "tx_invalid", "not_nd", "port_taken", "no_descriptors", "too_long",
	dropNoSocket, DropVanished, "icmp_malformed", "icmp_unmatched", "icmp_excess",
}

// DropReasons returns all keys that Stats.Drops may have.
func DropReasons() []string { return append(provider.DropNames(), deviceDrops...) }
