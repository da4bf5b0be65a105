package wire

// DropReason is the reason why a packet was not processed. A dropped packet is counted under its reason and has no other effect
// (PROTOCOL, first paragraph). Parsers return this concrete type, with DropNone for success, so that the drop path does not
// allocate. The type implements error for callers outside the packet path. Never convert DropNone to error, because the result
// would not be nil.
type DropReason uint8

// Reasons, in the order in which a packet is checked: frame, base header, operations and control, engine.
const (
	DropNone        DropReason = iota
	DropShort                  // shorter than its headers
	DropVersion                // another protocol version, or a REQ without a common one (PROTOCOL §3.3)
	DropReserved               // a bit with a fixed value has a different value (PROTOCOL §3.3)
	DropCRC                    // CRC32C mismatch (PROTOCOL §3.4)
	DropOld                    // the packet number is so far below the largest one that its sender does not remember the packet (PROTOCOL §3.1)
	DropOpcode                 // undefined opcode, or one that does not belong in this kind of packet (PROTOCOL §4, §5)
	DropOpSpace                // operation in the wrong sequence space (PROTOCOL §4)
	DropLength                 // a length field contradicts its message (PROTOCOL §4, §5)
	DropTrailing               // bytes where none are allowed, or padding that is not zero (PROTOCOL §4, §5)
	DropControl                // a control message that contradicts itself (PROTOCOL §5, §7.1)
	DropEther                  // neither IPv4 nor IPv6 (PROTOCOL §2)
	DropVLAN                   // the tag of a VLAN, more than one tag, or a service tag (PROTOCOL §2)
	DropIPVersion              // IP version does not match the EtherType (PROTOCOL §2)
	DropIPOptions              // length of the IPv4 header is not 20 (PROTOCOL §2)
	DropFragment               // an IPv4 fragment (PROTOCOL §2)
	DropIPChecksum             // IPv4 header checksum mismatch (RFC 791)
	DropIPLength               // IP length contradicts the frame (PROTOCOL §2)
	DropNotUDP                 // not UDP, or an IPv6 extension header (PROTOCOL §2)
	DropUDPLength              // UDP length contradicts the IP length (PROTOCOL §2)
	DropUDPChecksum            // no UDP checksum over IPv6 (PROTOCOL §2, RFC 8200 §8.1)
	DropPort                   // not the ND port (PROTOCOL §2)
	DropUnknownConn            // no connection with that id (PROTOCOL §6)
	DropAddress                // not the address of the connection's peer, or an impossible address (PROTOCOL §6)
	DropDuplicate              // contents that were already received (PROTOCOL §9.1)
	DropAckRange               // acknowledges a packet that was never sent, or has invalid ranges (PROTOCOL §3.5)
	DropState                  // not expected in the connection's state
	DropHoldFull               // no memory for a packet behind a gap
	DropNoReceive              // SEND while there was no receive for it (PROTOCOL §9.4)
	DropToken                  // the token names no memory
	DropBacklog                // REQ while the listener's backlog was full
	DropRate                   // over a rate limit
	DropRSTToken               // RST without the right token (PROTOCOL §7.1)
	DropNoListener             // REQ for an ND port nobody listens at
	DropItem                   // an invalid or repeated item of a REQ or REP (PROTOCOL §7.1)
	DropPath                   // from a UDP source port that is not validated for the peer (PROTOCOL §6.1)
	DropWrongQueue             // the connection moves to another NIC queue, or the inbox of its engine is full
	DropTag                    // the tag of a sealed packet is wrong (PROTOCOL §10.1)
	DropReplay                 // the number of a sealed packet was opened before, or is too old to know (PROTOCOL §10.3)
	DropGeneration             // a sealed packet of a key generation that is not used (PROTOCOL §10.4)
	DropPlain                  // a packet without encryption for an encrypted connection (PROTOCOL §10.1)
	DropSealed                 // a sealed packet for a connection without encryption (PROTOCOL §10.1)
	DropShake                  // bytes of a TLS handshake that contradict earlier ones, or exceed a limit (PROTOCOL §10.2)
	NumDropReasons             // number of reasons, for arrays of counters
)

var dropNames = [NumDropReasons]string{
	DropNone: "none", DropShort: "short", DropVersion: "version", DropReserved: "reserved", DropCRC: "crc", DropOld: "old",
	DropOpcode: "opcode", DropOpSpace: "op_space", DropLength: "length", DropTrailing: "trailing",
	DropControl: "control", DropEther: "ether", DropVLAN: "vlan", DropIPVersion: "ip_version",
	DropIPOptions: "ip_options", DropFragment: "fragment", DropIPChecksum: "ip_checksum", DropIPLength: "ip_length",
	DropNotUDP: "not_udp", DropUDPLength: "udp_length", DropUDPChecksum: "udp_checksum", DropPort: "port",
	DropUnknownConn: "unknown_conn", DropAddress: "address", DropDuplicate: "duplicate",
	DropAckRange: "ack_range", DropState: "state", DropHoldFull: "hold_full", DropNoReceive: "no_receive",
	DropToken: "token", DropBacklog: "backlog", DropRate: "rate", DropRSTToken: "rst_token",
	DropNoListener: "no_listener", DropItem: "item", DropPath: "path", DropWrongQueue: "wrong_queue",
	DropTag: "tag", DropReplay: "replay", DropGeneration: "generation", DropPlain: "plain", DropSealed: "sealed", DropShake: "shake",
}

// String returns the short name of the reason, as counters and logs print it.
func (r DropReason) String() string { return nameOf(dropNames[:], int(r)) }

// Error returns the short name.
func (r DropReason) Error() string { return r.String() }
