package nd

import "github.com/ndxdp/ndxdp/provider"

// Stats counts what an adapter has done after it was opened, in groups. JSON names are in lower case, with words joined by underscores.
type Stats struct {
	Packets     PacketStats     `json:"packets"`
	Recovery    RecoveryStats   `json:"recovery"`
	Connections ConnectionStats `json:"connections"`
	Requests    RequestStats    `json:"requests"`
	TLS         TLSStats        `json:"tls"`
	Paths       PathStats       `json:"paths"`
	Sockets     SocketStats     `json:"sockets"`
	Bulk        BulkStats       `json:"bulk"`
	Waits       WaitStats       `json:"waits"`
	Operations  OperationStats  `json:"operations"`

	// LimitedSeconds is how long each limit applied, in seconds, summed over all connections, including ended ones. The keys are
	// LimitNames.
	LimitedSeconds map[string]float64 `json:"limited_seconds"`

	// Drops counts packets that were not used, by reason. Only reasons with a count above zero have a key; DropReasons lists all.
	Drops map[string]uint64 `json:"drops"`

	// IllegalTransitions counts forbidden state transitions. It is 0 unless this library has a bug; report it with ndinfo bugreport.
	IllegalTransitions uint64 `json:"illegal_transitions"`
}

// PacketStats counts ND packets. Bytes are with ND headers and without UDP headers and below.
type PacketStats struct {
	In       uint64 `json:"in"`
	Out      uint64 `json:"out"`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out"`
	Acks     uint64 `json:"acks"`      // sent only to acknowledge
	Marked   uint64 `json:"marked"`    // marked by routers, as peers reported
	NoFrames uint64 `json:"no_frames"` // times a packet waited for a transmit frame
	Relayed  uint64 `json:"relayed"`   // arrived on another receive queue than their connection's

	// LocalIn and LocalOut are the part of In and Out that reaches no interface. Packets of an adapter to itself stay in the process. An adapter
	// on AF_XDP uses plain sockets for packets to and from other addresses of its machine.
	LocalIn  uint64 `json:"local_in"`
	LocalOut uint64 `json:"local_out"`
}

// RecoveryStats counts lost packets and what was sent again.
type RecoveryStats struct {
	Lost     uint64 `json:"lost"`     // packets declared lost
	Probes   uint64 `json:"probes"`   // probe timeouts (PTO) that sent a probe
	Timeouts uint64 `json:"timeouts"` // retransmission time-outs
	Spurious uint64 `json:"spurious"` // time-outs before which nothing had been lost

	// Retransmits is the sum of the reasons for sending packets again. ResentLost: later packets overtook them. ResentProbe: a PTO probe
	// repeated one. ResentTimeout: a time-out repeated them. ResentReceive: the peer dropped them for lack of a receive. Duplicates counts
	// packets that the peer received twice: retransmitted in vain, or duplicated on the way.
	Retransmits   uint64 `json:"retransmits"`
	ResentLost    uint64 `json:"resent_lost"`
	ResentProbe   uint64 `json:"resent_probe"`
	ResentTimeout uint64 `json:"resent_timeout"`
	ResentReceive uint64 `json:"resent_receive"`
	Duplicates    uint64 `json:"duplicates"`
}

// ConnectionStats counts connections.
type ConnectionStats struct {
	Open        uint64 `json:"open"` // now, including connections that are being made or closed
	Established uint64 `json:"established"`
	Refused     uint64 `json:"refused"`
	Lost        uint64 `json:"lost"`   // ended by silence, a fault or a restart of the peer, not by Disconnect or Close
	Moved       uint64 `json:"moved"`  // to the receive queue of their packets
	Pauses      uint64 `json:"pauses"` // times a peer's shared receive queue was empty

	// Contested counts connections that had to prove that they are alive, by ProofPings, because a new request wanted their ND endpoints.
	// PortsUnheld counts connections that had to do so because the peer's kernel reported by ICMP that no process has the peer's UDP port.
	// Forgotten counts ended connections whose record was reused, so that they no longer answer.
	Contested   uint64 `json:"contested"`
	ProofPings  uint64 `json:"proof_pings"`
	PortsUnheld uint64 `json:"ports_unheld"`
	Forgotten   uint64 `json:"forgotten"`
}

// RequestStats counts connection requests of unknown peers.
type RequestStats struct {
	CookiesSent    uint64 `json:"cookies_sent"`    // answered with a cookie, to prove the peer's address
	CookiesRefused uint64 `json:"cookies_refused"` // with a cookie that is wrong or too old
	SourceLimited  uint64 `json:"source_limited"`  // refused, or dropped until they are repeated, because their source has used its share
	HandedOver     uint64 `json:"handed_over"`     // passed to the adapter of this machine that has their ND port
}

// TLSStats counts TLS handshakes and keys of encrypted connections. Packets that were not accepted are in Drops: tag (forged or damaged),
// replay, generation (of no known key), plain (not encrypted, for an encrypted connection), sealed (the reverse) and shake.
type TLSStats struct {
	Handshakes       uint64 `json:"handshakes"`        // that succeeded
	HandshakesFailed uint64 `json:"handshakes_failed"` // by a check of this side, by the peer's alert, or by silence
	KeyUpdates       uint64 `json:"key_updates"`       // new keys for what this side sends, after the first
}

// PathStats counts changes of packet sizes and of UDP source ports.
type PathStats struct {
	Probes     uint64 `json:"probes"`      // for a larger packet size
	Raised     uint64 `json:"raised"`      // successful probes
	BlackHoles uint64 `json:"black_holes"` // paths whose packet size fell

	Challenges   uint64 `json:"challenges"`    // to a peer whose packets came from a new port
	Proven       uint64 `json:"proven"`        // ports that a peer proved
	PortsChanged uint64 `json:"ports_changed"` // own ports given up, because no packet came back by their path
}

// SocketStats counts packets of plain sockets and of the bulk path.
type SocketStats struct {
	InBatches     uint64 `json:"in_batches"`     // left in GSO batches
	Merged        uint64 `json:"merged"`         // arrived merged by GRO
	InRing        uint64 `json:"in_ring"`        // arrived in the ring of DatapathRing and DatapathTCX
	BatchesPaused uint64 `json:"batches_paused"` // times a connection sent packets one by one for some time, because whole batches may have been lost
}

// BulkStats counts what used the bulk path, and how often connections left it.
type BulkStats struct {
	PacketsIn  uint64 `json:"packets_in"` // part of PacketStats.In, and so on
	PacketsOut uint64 `json:"packets_out"`
	BytesIn    uint64 `json:"bytes_in"`
	BytesOut   uint64 `json:"bytes_out"`
	Probes     uint64 `json:"probes"` // packets that tested the path
	Proven     uint64 `json:"proven"` // tests that were answered

	// Left is the sum of the reasons for leaving the bulk path. Unanswered: probes were not answered. TimedOut: nothing in flight was
	// acknowledged. Lossy: most packets were lost.
	Left       uint64 `json:"left"`
	Unanswered uint64 `json:"unanswered"`
	TimedOut   uint64 `json:"timed_out"`
	Lossy      uint64 `json:"lossy"`

	// Long counts how often a connection began to send long packets, which are whole GSO batches. LongLeft counts how often one stopped,
	// because they or their probes were lost.
	Long     uint64 `json:"long"`
	LongLeft uint64 `json:"long_left"`
}

// WaitStats counts how Notify waited (AdapterConfig.Spin).
type WaitStats struct {
	Spins    uint64 `json:"spins"`     // times it polled for packets before it slept
	SpinHits uint64 `json:"spin_hits"` // times polling spared the sleep
	Sleeps   uint64 `json:"sleeps"`
}

// OperationStats counts successful requests of this side. RDMA Reads and Writes by peers do not count.
type OperationStats struct {
	Done    map[string]uint64 `json:"done"`  // by kind; the keys are OperationNames
	Bytes   map[string]uint64 `json:"bytes"` // that they moved; the keys are PayloadNames
	Latency RequestLatency    `json:"latency"`
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
		s.Sockets.InBatches, s.Sockets.Merged, s.Sockets.InRing = d.InRuns, d.Merged, d.InRing
		s.Packets.LocalIn, s.Packets.LocalOut = d.LocalIn, d.LocalOut
		s.Waits.Spins, s.Waits.SpinHits, s.Waits.Sleeps = d.Spins, d.SpinHits, d.Sleeps
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
		Packets: PacketStats{
			In: p.PacketsIn, Out: p.PacketsOut, BytesIn: p.BytesIn, BytesOut: p.BytesOut, Acks: p.AcksOut, Marked: p.Marked,
			NoFrames: p.NoFrames, Relayed: p.Relayed,
		},
		Recovery: RecoveryStats{
			Lost: p.PacketsLost, Probes: p.Probes, Timeouts: p.Timeouts, Spurious: p.SpuriousTimeouts,
			Retransmits: p.Retransmits, ResentLost: p.ResentLost, ResentProbe: p.ResentProbe, ResentTimeout: p.ResentTimeout,
			ResentReceive: p.ResentReceive, Duplicates: p.Duplicates,
		},
		Connections: ConnectionStats{
			Open: p.Connections, Established: p.Established, Refused: p.Refused, Lost: p.Lost, Moved: p.Moved, Pauses: p.Pauses,
			Contested: p.Contested, ProofPings: p.ProofPings, PortsUnheld: p.PortsUnheld, Forgotten: p.Forgotten,
		},
		Requests: RequestStats{
			CookiesSent: p.CookiesSent, CookiesRefused: p.CookiesRefused, SourceLimited: p.SourceLimited, HandedOver: p.HandedOver,
		},
		TLS: TLSStats{Handshakes: p.Handshakes, HandshakesFailed: p.HandshakesFailed, KeyUpdates: p.KeyUpdates},
		Paths: PathStats{
			Probes: p.PathProbes, Raised: p.PathRaised, BlackHoles: p.BlackHoles,
			Challenges: p.Challenges, Proven: p.PathsChanged, PortsChanged: p.PortsChanged,
		},
		Sockets: SocketStats{BatchesPaused: p.RunsPaused},
		Bulk: BulkStats{
			PacketsIn: p.BulkPacketsIn, PacketsOut: p.BulkPacketsOut, BytesIn: p.BulkBytesIn, BytesOut: p.BulkBytesOut,
			Probes: p.BulkProbes, Proven: p.BulkProven, Left: p.BulkLeft,
			Unanswered: p.BulkUnanswered, TimedOut: p.BulkTimedOut, Lossy: p.BulkLossy,
			Long: p.LongProven, LongLeft: p.LongLeft,
		},
		LimitedSeconds: map[string]float64{}, Drops: p.DropsByName(), IllegalTransitions: p.IllegalTransitions,
	}
	s.requests(p)
	for l, us := range p.Limited {
		s.LimitedSeconds[provider.Limit(l).String()] = float64(us) / 1e6
	}
	return s
}
