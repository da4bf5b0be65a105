package nd

import "github.com/ndxdp/ndxdp/provider"

// Stats counts what an adapter did since it was opened. In JSON names are in lower case, their words joined by underscores.
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
	// Relayed packets arrived on another receive queue than that of their connection; Moved connections followed them.
	Relayed uint64 `json:"relayed"`
	Moved   uint64 `json:"moved"`
	// PathProbes looked for a larger packet size and PathRaised found one; BlackHoles are paths that became smaller.
	PathProbes uint64 `json:"path_probes"`
	PathRaised uint64 `json:"path_raised"`
	BlackHoles uint64 `json:"black_holes"`

	// PacketsLost were taken for lost, and TailProbes sent to find out.
	PacketsLost uint64 `json:"packets_lost"`
	TailProbes  uint64 `json:"tail_probes"`
	NoFrames    uint64 `json:"no_frames"` // times a packet waited for a transmit frame

	// Why packets were sent again: Retransmits is the sum. Lost are those that later ones overtook, Probe the tail-loss probes that
	// repeated one, Timeout what time-outs repeated, and Receive what a peer dropped for lack of a receive. Duplicates are packets that
	// peers say they had got before: what was sent again in vain, or doubled on the way.
	ResentLost    uint64 `json:"resent_lost"`
	ResentProbe   uint64 `json:"resent_probe"`
	ResentTimeout uint64 `json:"resent_timeout"`
	ResentReceive uint64 `json:"resent_receive"`
	Duplicates    uint64 `json:"duplicates"`

	// Connection requests of peers that have no connection: Strangers were asked to prove their address by a cookie (CookiesSent in
	// docs/PROTOCOL.md), CookiesRefused came with one that is wrong
	// or too old, SourceLimited were refused, or dropped until they come again, because their source has its share, and HandedOver went to the adapter of this machine that has their ND port.
	// Contested connections had to prove themselves alive, by ProofPings, because a request wanted their ND endpoints. PortsUnheld connections had
	// to do it because the kernel of the peer said, by ICMP, that no process holds the peer's UDP port. Forgotten are connections that were over
	// and no longer answer, because their record was needed for another.
	Strangers      uint64 `json:"strangers"`
	CookiesRefused uint64 `json:"cookies_refused"`
	SourceLimited  uint64 `json:"source_limited"`
	HandedOver     uint64 `json:"handed_over"`
	Contested      uint64 `json:"contested"`
	ProofPings     uint64 `json:"proof_pings"`
	PortsUnheld    uint64 `json:"ports_unheld"`
	Forgotten      uint64 `json:"forgotten"`

	// IllegalTransitions are steps between states that there is no way between: it is 0 unless this library has a bug, which ndinfo bugreport helps to report.
	IllegalTransitions uint64 `json:"illegal_transitions"`

	// UDP source ports: Challenges asked a peer whose packets came from another one to prove it, PathsChanged are those that were
	// proven, and PortsChanged the changes of our own, because nothing came back from the path behind one.
	Challenges   uint64 `json:"challenges"`
	PathsChanged uint64 `json:"paths_changed"`
	PortsChanged uint64 `json:"ports_changed"`

	// Spins are how often a Notify looked for packets before it slept, SpinHits how often that spared the sleep, and Sleeps how often it slept
	// (AdapterConfig.Spin).
	Spins    uint64 `json:"spins"`
	SpinHits uint64 `json:"spin_hits"`
	Sleeps   uint64 `json:"sleeps"`

	// LimitedSeconds is how long connections, also those that are over, were limited by what: seconds, summed over them. The
	// keys are LimitNames.
	LimitedSeconds map[string]float64 `json:"limited_seconds"`

	// Over plain sockets and the bulk lane: packets that left in runs which the kernel cuts, packets that arrived merged, and how often packets
	// of a connection left one by one for some time, because runs may have been lost as a whole.
	InRuns     uint64 `json:"in_runs"`
	InRing     uint64 `json:"in_ring"` // packets that arrived in the ring of DatapathRing and DatapathTCX
	Merged     uint64 `json:"merged"`
	RunsPaused uint64 `json:"runs_paused"`

	// By the bulk lane: what of PacketsIn, PacketsOut, BytesIn and BytesOut came and left by it, probes that looked whether it carries packets and those that
	// were answered, and how often connections left it.
	BulkPacketsIn  uint64 `json:"bulk_packets_in"`
	BulkPacketsOut uint64 `json:"bulk_packets_out"`
	BulkBytesIn    uint64 `json:"bulk_bytes_in"`
	BulkBytesOut   uint64 `json:"bulk_bytes_out"`
	BulkProbes     uint64 `json:"bulk_probes"`
	BulkProven     uint64 `json:"bulk_proven"`
	BulkLeft       uint64 `json:"bulk_left"`

	// Why they left it, which BulkLeft is the sum of: probes stayed without an answer, nothing came back of what was under way, or most packets were lost.
	BulkUnanswered uint64 `json:"bulk_unanswered"`
	BulkTimedOut   uint64 `json:"bulk_timed_out"`
	BulkLossy      uint64 `json:"bulk_lossy"`

	// LocalIn and LocalOut are those of PacketsIn and PacketsOut that came and left by plain sockets though the adapter is on AF_XDP, because the peer has an
	// address of the same machine, whose packets never come to an interface.
	LocalIn  uint64 `json:"local_in"`
	LocalOut uint64 `json:"local_out"`

	// Operations counts requests that ended well, and PayloadBytes what they moved, by kind: keys are OperationNames and PayloadNames. What peers read and
	// write here by themselves is not among them.
	Operations     map[string]uint64 `json:"operations"`
	PayloadBytes   map[string]uint64 `json:"payload_bytes"`
	RequestLatency RequestLatency    `json:"request_latency"`

	// Drops counts packets that were not used, by reason: those of DropReasons that are not zero.
	Drops map[string]uint64 `json:"drops"`
}

// Stats reads the counters. The call allocates, and waits for the running turn of each engine.
func (a *Adapter) Stats() Stats {
	p := a.verbs.Stats()
	s := engineStats(&p)
	if a.verbs.Device == nil {
		return s
	}
	// The socket's counters are for people; a socket that cannot be read reports none.
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

// engineStats are the counters of engines. Those of the device are not among them.
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
