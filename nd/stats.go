package nd

import "github.com/ndxdp/ndxdp/provider"

// Stats counts what an adapter has done after it was opened. JSON names are in lower case, with words joined by underscores.
type Stats struct {
	PacketsIn   uint64 `json:"packets_in"`
	PacketsOut  uint64 `json:"packets_out"`
	BytesIn     uint64 `json:"bytes_in"`
	BytesOut    uint64 `json:"bytes_out"`
	Acks        uint64 `json:"acks"`
	Retransmits uint64 `json:"retransmits"`
	Timeouts    uint64 `json:"timeouts"`
	Spurious    uint64 `json:"spurious"`
	Marked      uint64 `json:"marked"` // packets that routers marked, as peers reported
	Pauses      uint64 `json:"pauses"` // times a peer's shared receive queue was empty
	Connections uint64 `json:"connections"`
	Established uint64 `json:"established"`
	Refused     uint64 `json:"refused"`
	Lost        uint64 `json:"lost"`
	// Relayed counts packets that arrived on another receive queue than their connection's. Moved counts connections that moved to the
	// receive queue of their packets.
	Relayed uint64 `json:"relayed"`
	Moved   uint64 `json:"moved"`
	// PathProbes counts probes for a larger packet size, and PathRaised the successful ones. BlackHoles counts paths whose packet size
	// fell.
	PathProbes uint64 `json:"path_probes"`
	PathRaised uint64 `json:"path_raised"`
	BlackHoles uint64 `json:"black_holes"`

	// PacketsLost counts packets declared lost. TailProbes counts probe timeouts (PTO) that sent a probe.
	PacketsLost uint64 `json:"packets_lost"`
	TailProbes  uint64 `json:"tail_probes"`
	NoFrames    uint64 `json:"no_frames"` // times a packet waited for a transmit frame

	// Reasons for sending packets again; Retransmits is their sum. ResentLost: later packets overtook them. ResentProbe: a PTO probe
	// repeated one. ResentTimeout: a time-out repeated them. ResentReceive: the peer dropped them for lack of a receive. Duplicates counts
	// packets that the peer received twice: retransmitted in vain, or duplicated on the way.
	ResentLost    uint64 `json:"resent_lost"`
	ResentProbe   uint64 `json:"resent_probe"`
	ResentTimeout uint64 `json:"resent_timeout"`
	ResentReceive uint64 `json:"resent_receive"`
	Duplicates    uint64 `json:"duplicates"`

	// Connection requests of unknown peers. Strangers counts requests that were answered with a cookie, to prove the peer's address
	// (CookiesSent in docs/PROTOCOL.md). CookiesRefused counts requests with a cookie that is wrong or too old. SourceLimited counts
	// requests that were refused, or dropped until they are repeated, because their source has used its share. HandedOver counts requests
	// passed to the adapter of this machine that has their ND port.
	//
	// Contested counts connections that had to prove that they are alive, by ProofPings, because a new request wanted their ND endpoints.
	// PortsUnheld counts connections that had to do so because the peer's kernel reported by ICMP that no process has the peer's UDP port.
	// Forgotten counts ended connections whose record was reused, so that they no longer answer.
	Strangers      uint64 `json:"strangers"`
	CookiesRefused uint64 `json:"cookies_refused"`
	SourceLimited  uint64 `json:"source_limited"`
	HandedOver     uint64 `json:"handed_over"`
	Contested      uint64 `json:"contested"`
	ProofPings     uint64 `json:"proof_pings"`
	PortsUnheld    uint64 `json:"ports_unheld"`
	Forgotten      uint64 `json:"forgotten"`

	// IllegalTransitions counts forbidden state transitions. It is 0 unless this library has a bug; report it with ndinfo bugreport.
	IllegalTransitions uint64 `json:"illegal_transitions"`

	// UDP source ports. Challenges counts challenges to a peer whose packets came from a new port. PathsChanged counts ports that were
	// proven. PortsChanged counts changes of our own port, because no packet came back by the path of the old port.
	Challenges   uint64 `json:"challenges"`
	PathsChanged uint64 `json:"paths_changed"`
	PortsChanged uint64 `json:"ports_changed"`

	// Spins counts how often a Notify polled for packets before it slept. SpinHits counts how often that spared the sleep. Sleeps counts
	// how often it slept (AdapterConfig.Spin).
	Spins    uint64 `json:"spins"`
	SpinHits uint64 `json:"spin_hits"`
	Sleeps   uint64 `json:"sleeps"`

	// LimitedSeconds is how long each limit applied, in seconds, summed over all connections, including ended ones. The keys are
	// LimitNames.
	LimitedSeconds map[string]float64 `json:"limited_seconds"`

	// Plain sockets and the bulk path. InRuns counts packets that left in GSO batches, and Merged packets that arrived merged by GRO.
	// RunsPaused counts how often a connection sent packets one by one for some time, because whole batches may have been lost.
	InRuns     uint64 `json:"in_runs"`
	InRing     uint64 `json:"in_ring"` // packets that arrived in the ring of DatapathRing and DatapathTCX
	Merged     uint64 `json:"merged"`
	RunsPaused uint64 `json:"runs_paused"`

	// The bulk path's share of PacketsIn, PacketsOut, BytesIn and BytesOut; the probes that tested the path and those that were answered;
	// and how often connections stopped using the path.
	BulkPacketsIn  uint64 `json:"bulk_packets_in"`
	BulkPacketsOut uint64 `json:"bulk_packets_out"`
	BulkBytesIn    uint64 `json:"bulk_bytes_in"`
	BulkBytesOut   uint64 `json:"bulk_bytes_out"`
	BulkProbes     uint64 `json:"bulk_probes"`
	BulkProven     uint64 `json:"bulk_proven"`
	BulkLeft       uint64 `json:"bulk_left"`

	// Reasons for leaving the bulk path; BulkLeft is their sum. BulkUnanswered: probes were not answered. BulkTimedOut: nothing in flight
	// was acknowledged. BulkLossy: most packets were lost.
	BulkUnanswered uint64 `json:"bulk_unanswered"`
	BulkTimedOut   uint64 `json:"bulk_timed_out"`
	BulkLossy      uint64 `json:"bulk_lossy"`

	// LocalIn and LocalOut are the part of PacketsIn and PacketsOut that used plain sockets although the adapter is on AF_XDP. The peer has
	// an address of the same machine, and packets between them never reach an interface.
	LocalIn  uint64 `json:"local_in"`
	LocalOut uint64 `json:"local_out"`

	// Operations counts successful requests by kind, and PayloadBytes the bytes they moved. The keys are OperationNames and PayloadNames.
	// RDMA Reads and Writes by peers do not count here.
	Operations     map[string]uint64 `json:"operations"`
	PayloadBytes   map[string]uint64 `json:"payload_bytes"`
	RequestLatency RequestLatency    `json:"request_latency"`

	// Drops counts packets that were not used, by reason. Only reasons with a count above zero have a key; DropReasons lists all.
	Drops map[string]uint64 `json:"drops"`
}

// Stats reads the counters. It allocates, and waits for the running poll of each engine.
func (a *Adapter) Stats() Stats {
	p := a.verbs.Stats()
	s := engineStats(&p)
	if a.verbs.Device == nil {
		return s
	}
	// The device's counters are for people only. If they cannot be read, they are left at zero.
	if d, err := a.verbs.Device.Stats(); err == nil {
		s.InRuns, s.Merged, s.InRing = d.InRuns, d.Merged, d.InRing
		s.LocalIn, s.LocalOut = d.LocalIn, d.LocalOut
		s.Spins, s.SpinHits, s.Sleeps = d.Spins, d.SpinHits, d.Sleeps
		for name, n := range map[string]uint64{
			"rx_dropped": d.Socket.RxDropped, "rx_ring_full": d.Socket.RxRingFull, "fill_ring_empty": d.Socket.FillRingEmpty,
			"tx_lost": d.Socket.TxLost + d.Lost, "tx_invalid": d.Socket.TxInvalid, "not_nd": d.Foreign,
			"port_taken": d.PortTaken, "no_descriptors": d.NoDescriptors, "too_long": d.TooLong, DropVanished: d.Vanished, dropNoSocket: d.NoSocket,
			"icmp_malformed": d.ICMPMalformed, "icmp_unmatched": d.ICMPUnmatched, "icmp_excess": d.ICMPExcess,
		} {
			if n > 0 {
				s.Drops[name] = n
			}
		}
	}
	return s
}

// engineStats are the counters of the engines. The device's counters are not part of them.
func engineStats(p *provider.Stats) Stats {
	s := Stats{
		PacketsIn: p.PacketsIn, PacketsOut: p.PacketsOut, BytesIn: p.BytesIn, BytesOut: p.BytesOut,
		Acks: p.AcksOut, Retransmits: p.Retransmits, Timeouts: p.Timeouts, Spurious: p.SpuriousTimeouts, Marked: p.Marked, Pauses: p.Pauses,
		Connections: p.Connections, Established: p.Established, Refused: p.Refused, Lost: p.Lost, Relayed: p.Relayed, Moved: p.Moved,
		PathProbes: p.PathProbes, PathRaised: p.PathRaised, BlackHoles: p.BlackHoles,
		ResentLost: p.ResentLost, ResentProbe: p.ResentProbe, ResentTimeout: p.ResentTimeout, ResentReceive: p.ResentReceive,
		Duplicates:  p.Duplicates,
		PacketsLost: p.PacketsLost, TailProbes: p.Probes, NoFrames: p.NoFrames,
		Strangers: p.CookiesSent, CookiesRefused: p.CookiesRefused, SourceLimited: p.SourceLimited, HandedOver: p.HandedOver,
		Contested: p.Contested, ProofPings: p.ProofPings, PortsUnheld: p.PortsUnheld, Forgotten: p.Forgotten, IllegalTransitions: p.IllegalTransitions,
		Challenges: p.Challenges, PathsChanged: p.PathsChanged, PortsChanged: p.PortsChanged,
		RunsPaused:    p.RunsPaused,
		BulkPacketsIn: p.BulkPacketsIn, BulkPacketsOut: p.BulkPacketsOut, BulkBytesIn: p.BulkBytesIn, BulkBytesOut: p.BulkBytesOut,
		BulkProbes: p.BulkProbes, BulkProven: p.BulkProven, BulkLeft: p.BulkLeft,
		BulkUnanswered: p.BulkUnanswered, BulkTimedOut: p.BulkTimedOut, BulkLossy: p.BulkLossy,
		LimitedSeconds: map[string]float64{}, Drops: p.DropsByName(),
	}
	s.requests(p)
	for l, us := range p.Limited {
		s.LimitedSeconds[provider.Limit(l).String()] = float64(us) / 1e6
	}
	return s
}
