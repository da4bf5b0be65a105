package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ndxdp/ndxdp/internal/genetlink"
)

// Bulk says whether an interface gets a bulk path beside its AF_XDP sockets (PROTOCOL §11.1).
type Bulk uint8

// The choices.
const (
	BulkAuto Bulk = iota // if the kernel carries GSO batches and AF_XDP copies (BulkFacts)
	BulkOff
	BulkOnly // if at all possible; engines then send all packets on it that it can carry
)

var bulkNames = [...]string{BulkAuto: "auto", BulkOff: "off", BulkOnly: "only"}

// String returns the name of the choice, as flags use it.
func (b Bulk) String() string {
	if int(b) < len(bulkNames) {
		return bulkNames[b]
	}
	return fmt.Sprintf("bulk %d", uint8(b))
}

// ParseBulk is the inverse of String.
func ParseBulk(s string) (Bulk, error) {
	if i := slices.Index(bulkNames[:], s); i >= 0 {
		return Bulk(i), nil
	}
	return BulkAuto, fmt.Errorf("unknown choice of a bulk lane %q: use auto, off or only", s)
}

// BulkFacts decides whether an interface gets a bulk path.
type BulkFacts struct {
	Name           string   // of the interface
	ZeroCopy       bool     // AF_XDP sends without a copy, and a kernel socket would add one
	On, Changeable []string // offloads that are on, and offloads that can be changed
	Refused        error    // why this kernel sends no GSO batches
}

// Refuses returns the reason why an interface gets no bulk path, or an empty string.
func (b Bulk) Refuses(f *BulkFacts) string {
	switch {
	case b == BulkOff:
		return "turned off"
	case b == BulkAuto && f.ZeroCopy:
		return "AF_XDP sends without a copy on interface " + f.Name
	case b == BulkAuto && !slices.Contains(f.On, genetlink.SegmentsUDP):
		return unsegmented(f.Name, f.On, f.Changeable)
	case f.Refused != nil:
		return f.Refused.Error()
	}
	return ""
}

// unsegmented returns why an interface does not segment UDP, and the command that turns segmentation on if there is one. Both lists have
// names of offloads.
func unsegmented(name string, on, changeable []string) string {
	why := "interface " + name + " does not segment UDP (" + genetlink.SegmentsUDP + ")"
	if !slices.Contains(changeable, genetlink.SegmentsUDP) {
		return why + ", and its driver offers no way to turn it on"
	}
	command := "ethtool -K " + name
	if !slices.ContainsFunc(on, func(o string) bool { return strings.HasPrefix(o, "tx-checksum-ip") }) {
		command += " tx on" // newer kernels (6.18) refuse segmentation without checksum offload
	}
	return why + ": turn it on (" + command + " " + genetlink.SegmentsUDP + " on) and open the adapter again"
}
