package bpf

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// DefaultPort is the UDP destination port of ND traffic (PROTOCOL §2).
const DefaultPort = 14791

// maxQueues bounds Config.Queues. It is far above any network card, and the socket map takes 8 bytes for each queue.
const maxQueues = 4096

// Mode is the way in which the program is attached.
type Mode uint8

// The attach modes.
const (
	ModeGeneric Mode = iota // after the driver, on any interface
	ModeNative              // in the driver
)

// String returns the name of the mode.
func (m Mode) String() string {
	switch m {
	case ModeGeneric:
		return "generic"
	case ModeNative:
		return "native"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Config says where and how Attach attaches the program.
type Config struct {
	Ifindex   int    // if zero, it is looked up by Interface
	Interface string // for messages; if empty, it is looked up by Ifindex
	Port      uint16 // UDP destination port; DefaultPort if zero
	Queues    int    // receive queues of the interface, numbered from 0 to Queues-1; 1 if zero
	Mode      Mode
	// SingleBuffer means that no frame of the interface needs more than one receive buffer. The kernel then passes linear frames to the
	// program. In generic mode the kernel copies every frame that lacks headroom. For programs that accept fragments it copies page by
	// page, which costs a tenth of a microsecond more.
	SingleBuffer bool
}

// hasFrags is BPF_F_XDP_HAS_FRAGS (linux/bpf.h): the section name sets it.
const hasFrags = 1 << 5

// Attach loads the program and attaches it to an interface. All frames pass until a socket and an address are set. The program stays
// until Close, or until this process ends.
//
// An existing program is never replaced: the error is then a *HeldError, which wraps ErrHeld. All other failures to load or attach are an
// *AttachError.
func Attach(cfg Config) (*Steering, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	held, err := holderOf(cfg)
	if err != nil {
		return nil, &AttachError{Config: cfg, Op: "query", Err: err}
	}
	if held != nil {
		return nil, held
	}
	_ = rlimit.RemoveMemlock() // needed only before 5.11, where loading fails with its own reason
	objects, err := load(cfg)
	if err != nil {
		return nil, &AttachError{Config: cfg, Op: "load", Err: err, Remedy: loadRemedy(err)}
	}
	flags := link.XDPGenericMode
	if cfg.Mode == ModeNative {
		flags = link.XDPDriverMode
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: objects.NdSteer, Interface: cfg.Ifindex, Flags: flags})
	if err != nil {
		_ = objects.Close() // nothing uses the objects now, and the first failure is reported
		return nil, attachFailure(cfg, err)
	}
	return &Steering{cfg: cfg, objects: objects, link: attached}, nil
}

func (cfg Config) resolve() (Config, error) {
	var found *net.Interface
	var err error
	if cfg.Ifindex == 0 {
		found, err = net.InterfaceByName(cfg.Interface)
	} else {
		found, err = net.InterfaceByIndex(cfg.Ifindex)
	}
	if err != nil {
		return cfg, fmt.Errorf("bpf: attach to interface %q (index %d): %w", cfg.Interface, cfg.Ifindex, err)
	}
	cfg.Ifindex, cfg.Interface = found.Index, found.Name
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.Queues == 0 {
		cfg.Queues = 1
	}
	if cfg.Queues < 0 || cfg.Queues > maxQueues {
		return cfg, fmt.Errorf("bpf: attach to %s: Queues is %d, want 1 to %d", cfg.Interface, cfg.Queues, maxQueues)
	}
	if cfg.Mode != ModeGeneric && cfg.Mode != ModeNative {
		return cfg, fmt.Errorf("bpf: attach to %s: unknown %s", cfg.Interface, cfg.Mode)
	}
	return cfg, nil
}

// load creates the maps and the program for cfg.
func load(cfg Config) (*steerObjects, error) {
	spec, err := loadSteer()
	if err != nil {
		return nil, err
	}
	networkOrder := [2]byte{byte(cfg.Port >> 8), byte(cfg.Port)}
	if err := spec.Variables[steerVarNdPort].Set(networkOrder); err != nil {
		return nil, fmt.Errorf("set port %d: %w", cfg.Port, err)
	}
	spec.Maps[steerMapNdSockets].MaxEntries = uint32(cfg.Queues)
	if cfg.SingleBuffer {
		spec.Programs[steerProgNdSteer].Flags &^= hasFrags
	}
	objects := &steerObjects{}
	if err := undisturbed(func() error { return spec.LoadAndAssign(objects, nil) }); err != nil {
		return nil, err
	}
	return objects, nil
}

// attachFailure explains why the kernel refused to attach.
func attachFailure(cfg Config, err error) error {
	// Another program may have been attached after the query. A program in the other mode also excludes our program.
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EEXIST) {
		if held, queryErr := holderOf(cfg); queryErr == nil && held != nil {
			return held
		}
	}
	return &AttachError{Config: cfg, Op: "attach", Err: err, Remedy: attachRemedy(cfg, err)}
}

func attachRemedy(cfg Config, err error) string {
	mtu := 0
	if found, lookErr := net.InterfaceByIndex(cfg.Ifindex); lookErr == nil {
		mtu = found.MTU
	}
	native := cfg.Mode == ModeNative
	switch {
	case errors.Is(err, syscall.EPERM):
		return "run as root or grant CAP_BPF and CAP_NET_ADMIN"
	case native && (errors.Is(err, syscall.ERANGE) || errors.Is(err, syscall.EINVAL)):
		return fmt.Sprintf("the driver may refuse native mode at MTU %d (or at the peer's MTU): lower the MTU or use "+
			"generic mode", mtu)
	case native && (errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, ebpf.ErrNotSupported)):
		return fmt.Sprintf("the driver has no native mode, or none with its present settings (MTU %d, LRO, queues): "+
			"use generic mode", mtu)
	case native && errors.Is(err, syscall.ENOSPC):
		return "the queues do not match for native mode: too few transmit queues, or, on veth, fewer receive queues than " +
			"the other end has transmit queues: change their number (ethtool -L) or use generic mode"
	case errors.Is(err, ebpf.ErrNotSupported):
		return "needs Linux 5.9 for XDP links"
	}
	return ""
}

func loadRemedy(err error) string {
	if unsupported := Supported(); unsupported != nil {
		return unsupported.Error()
	}
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) {
		return "before Linux 5.11 raise the limit of locked memory (ulimit -l)"
	}
	return ""
}
