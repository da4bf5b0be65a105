package bpf

// Verdict is the decision of the program about a frame. The values come from steer.h.
type Verdict uint32

// The verdicts. Redirected frames go to a socket, and spoofed frames are dropped. All other frames pass to the kernel.
const (
	VerdictRedirected     = Verdict(steerNdVerdictND_REDIRECTED)      // sent to the socket of its queue, untagged
	VerdictRedirectedVLAN = Verdict(steerNdVerdictND_REDIRECTED_VLAN) // sent to the socket of its queue, with a priority tag
	VerdictNoSocket       = Verdict(steerNdVerdictND_NO_SOCKET)       // for us, but its queue has no socket
	VerdictSpoofed        = Verdict(steerNdVerdictND_SPOOFED)         // for us, but from one of our own addresses
	VerdictNotLocal       = Verdict(steerNdVerdictND_NOT_LOCAL)       // to the ND port, but not to one of our addresses
	VerdictOtherPort      = Verdict(steerNdVerdictND_OTHER_PORT)      // UDP to another port
	VerdictNotUDP         = Verdict(steerNdVerdictND_NOT_UDP)         // IP, but no UDP header directly after the IP header
	VerdictFragment       = Verdict(steerNdVerdictND_FRAGMENT)        // a fragment of an IP datagram
	VerdictIPOptions      = Verdict(steerNdVerdictND_IP_OPTIONS)      // IPv4 with options
	VerdictNotIP          = Verdict(steerNdVerdictND_NOT_IP)          // neither IPv4 nor IPv6
	VerdictVLANNested     = Verdict(steerNdVerdictND_VLAN_NESTED)     // a second tag, or an 802.1ad tag
	VerdictTruncated      = Verdict(steerNdVerdictND_TRUNCATED)       // ends inside a header
	VerdictVLANOther      = Verdict(steerNdVerdictND_VLAN_OTHER)      // tagged with the id of a VLAN

	// NumVerdicts is the number of verdicts, for arrays indexed by them.
	NumVerdicts = int(steerNdVerdictND_VERDICT_COUNT)
)

// Counters holds the number of frames for each Verdict, summed over CPUs.
type Counters [NumVerdicts]uint64

// Redirected returns the number of frames that went to a socket, tagged or not.
func (c Counters) Redirected() uint64 { return c[VerdictRedirected] + c[VerdictRedirectedVLAN] }
