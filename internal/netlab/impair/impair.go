package impair

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Config sets what happens to packets. Probabilities are from 0 to 1 and independent, but nothing else happens to a dropped packet.
type Config struct {
	Loss, Duplication float64
	Corruption        float64 // one byte behind the UDP header is changed, without correction of checksums

	// DeadPort is a UDP source port whose packets are all dropped, as if a hash of ports led to a dead path; zero for none.
	DeadPort uint16

	// MarkAfter, if positive, sets a congestion mark (CE, RFC 3168) on packets that would wait longer than this in a queue that
	// drains at MarkRate. Packets that are not ECN-capable are counted and not changed.
	MarkAfter time.Duration
	MarkRate  int // bytes per second, including Ethernet headers

	Seed uint64 // seed of the random decisions, which also depend on the order of packets
}

// Counts are numbers of packets after Attach. A packet may be counted in several fields.
type Counts struct {
	Seen, Dropped, Duplicated, Corrupted, Marked, Unmarkable int
}

// Impairment is the program attached to one port.
type Impairment struct {
	objects impairObjects
	filter  *netlink.BpfFilter
}

// Attach attaches the program to the egress of an interface in the calling thread's network namespace. After Set, it affects
// packets with the UDP destination port udpPort. All other packets pass unchanged.
func Attach(ifindex int, udpPort uint16) (*Impairment, error) {
	p := &Impairment{}
	if err := p.attach(ifindex, udpPort); err != nil {
		return nil, fmt.Errorf("impair: attach to interface %d: %w", ifindex, errors.Join(err, p.objects.Close()))
	}
	return p, nil
}

func (p *Impairment) attach(ifindex int, udpPort uint16) error {
	_ = rlimit.RemoveMemlock() // needed only before 5.11; without it, loading fails with a reason
	spec, err := loadImpair()
	if err != nil {
		return err
	}
	networkOrder := [2]byte{byte(udpPort >> 8), byte(udpPort)}
	if err := spec.Variables[impairVarNdPort].Set(networkOrder); err != nil {
		return fmt.Errorf("set port %d: %w", udpPort, err)
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact (CONFIG_NET_CLS_ACT): %w", err)
	}
	p.filter = &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1,
		},
		Fd: p.objects.NdImpair.FD(), Name: impairProgNdImpair, DirectAction: true,
	}
	if err := netlink.FilterAdd(p.filter); err != nil {
		return fmt.Errorf("add filter (CONFIG_NET_CLS_BPF): %w", err)
	}
	return nil
}

// Set changes what happens to packets from now on. The random generator restarts with the seed.
func (p *Impairment) Set(cfg Config) error {
	how := impairNdImpairment{
		Loss: parts(cfg.Loss), Duplication: parts(cfg.Duplication), Corruption: parts(cfg.Corruption),
		DeadPort: uint32(cfg.DeadPort),
		MarkNs:   uint64(max(cfg.MarkAfter, 0)), MarkRate: uint64(max(cfg.MarkRate, 0)),
	}
	// The state of the generator must not be zero.
	state := impairNdState{Random: cfg.Seed*2 + 1}
	err := p.objects.NdStates.Update(uint32(0), &state, ebpf.UpdateLock)
	if err == nil {
		err = p.objects.NdImpairments.Update(uint32(0), &how, ebpf.UpdateAny)
	}
	if err != nil {
		return fmt.Errorf("impair: set %+v: %w", cfg, err)
	}
	return nil
}

// parts returns a probability in 1/2^32.
func parts(probability float64) uint32 {
	return uint32(min(max(probability, 0)*(1<<32), math.MaxUint32))
}

// Counts reads the counters.
func (p *Impairment) Counts() (c Counts, err error) {
	for fate, to := range map[impairNdFate]*int{
		impairNdFateND_SEEN: &c.Seen, impairNdFateND_DROPPED: &c.Dropped, impairNdFateND_DUPLICATED: &c.Duplicated,
		impairNdFateND_CORRUPTED: &c.Corrupted, impairNdFateND_MARKED: &c.Marked, impairNdFateND_UNMARKABLE: &c.Unmarkable,
	} {
		var perCPU []uint64
		if err := p.objects.NdFates.Lookup(fate, &perCPU); err != nil {
			return c, fmt.Errorf("impair: read counters: %w", err)
		}
		for _, n := range perCPU {
			*to += int(n)
		}
	}
	return c, nil
}

// Close detaches the program. It must be called in the namespace of Attach. If the interface is gone, so is the program.
func (p *Impairment) Close() error {
	err := netlink.FilterDel(p.filter)
	if errors.Is(err, unix.ENODEV) {
		err = nil
	}
	return errors.Join(err, p.objects.Close())
}
