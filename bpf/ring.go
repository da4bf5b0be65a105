package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// RingBytes is the size of a ring: 250 packets of 2 KiB, or two thousand packets of 256 bytes. A packet that finds the ring full goes to
// the socket.
const RingBytes = 512 << 10

// Ring is the program nd_ring on an interface, for one UDP socket, with the ring that it fills. Its methods may be called from any
// goroutine.
type Ring struct {
	name    string     // name of the interface, for messages
	mu      sync.Mutex // keeps Close from closing the kernel objects while a call uses them
	objects *ringObjects
	link    link.Link
}

// AttachRing copies ND packets for the UDP socket at into a ring, if they arrive on the interface. Some process must have this socket. It
// needs CAP_BPF and CAP_NET_ADMIN, and Linux 6.6. Other programs at tcx stay, and see packets first. The program is detached by Close, or
// when this process ends.
func AttachRing(ifindex int, at netip.AddrPort) (*Ring, error) { return attachRing(ifindex, at, nil) }

// AttachRingOf is AttachRing for a process without privileges. socket is the UDP socket of this process, bound to at. The ring gets a
// packet only if the kernel would give it to this socket. It gets no packet after the socket was closed or has released its port, and no
// packet for another socket of the port. The caller keeps the descriptor, and may close it.
func AttachRingOf(ifindex int, at netip.AddrPort, socket int) (*Ring, error) {
	return attachRing(ifindex, at, &socket)
}

// attachRing attaches a ring. If owner is not nil, the ring serves only this socket.
func attachRing(ifindex int, at netip.AddrPort, owner *int) (*Ring, error) {
	nic, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("bpf: attach a ring to interface %d: %w", ifindex, err)
	}
	if a := at.Addr(); !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || at.Port() == 0 {
		return nil, fmt.Errorf("bpf: attach a ring for %s to %s: that is no unicast address and port", at, nic.Name)
	}
	if err := RingSupported(); err != nil {
		return nil, fmt.Errorf("bpf: attach a ring for %s to %s: %w", at, nic.Name, err)
	}
	_ = rlimit.RemoveMemlock() // needed before 5.11 only
	objects, err := loadRingFor(at, owner, nic.Flags&net.FlagLoopback != 0)
	if err != nil {
		return nil, fmt.Errorf("bpf: load the program of a ring for %s at %s: %w", at, nic.Name, err)
	}
	attached, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: objects.NdRing, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bpf: attach a ring for %s to %s: %w", at, nic.Name, err), objects.Close())
	}
	return &Ring{name: nic.Name, objects: objects, link: attached}, nil
}

// loadRingFor creates the maps and the program.
func loadRingFor(at netip.AddrPort, owner *int, loopback bool) (*ringObjects, error) {
	spec, err := loadRing()
	if err != nil {
		return nil, err
	}
	var to ringNdAddr // as the bytes are in memory
	address := addressKey(at.Addr())
	for i := range to.Word {
		to.Word[i] = binary.NativeEndian.Uint32(address[4*i:])
	}
	err = errors.Join(spec.Variables[ringVarNdTo].Set(to), spec.Variables[ringVarNdToPort].Set([2]byte{byte(at.Port() >> 8), byte(at.Port())}))
	if owner != nil {
		err = errors.Join(err, spec.Variables[ringVarNdChecks].Set(uint8(1)))
	}
	if loopback {
		err = errors.Join(err, spec.Variables[ringVarNdLoopback].Set(uint8(1)))
	}
	if err != nil {
		return nil, err
	}
	spec.Maps[ringMapNdPackets].MaxEntries = RingBytes
	objects := &ringObjects{}
	if err := undisturbed(func() error { return spec.LoadAndAssign(objects, nil) }); err != nil || owner == nil {
		return objects, err
	}
	if err := objects.NdOwners.Put(uint32(*owner), uint8(1)); err != nil {
		return nil, errors.Join(fmt.Errorf("note the socket that owns the ring: %w", err), objects.Close())
	}
	return objects, nil
}

// RingSupported returns the reason why a ring is impossible, or nil. A ring needs what Supported checks, and Linux 6.6.
func RingSupported() error {
	if err := Supported(); err != nil {
		return err
	}
	if v, known := kernelVersion(); known && v.before(ringKernel) {
		return fmt.Errorf("bpf: %w: The kernel is %s; programs at tcx need %s", ErrUnsupported, v, ringKernel)
	}
	return nil
}

// ringKernel is the first kernel with programs at tcx.
var ringKernel = version{6, 6}

// FDs returns the descriptors of the ring and of its page. The Ring keeps them. They are -1 after Close.
func (r *Ring) FDs() (packets, page int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		return -1, -1
	}
	return r.objects.NdPackets.FD(), r.objects.NdPages.FD()
}

// Attached reports whether the program still receives the packets of the interface. A process with privileges can detach it (bpftool link
// detach).
func (r *Ring) Attached() (attached bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		return false, os.ErrClosed
	}
	info, err := r.link.Info()
	if err == nil {
		attached = info.TCX() != nil && info.TCX().Ifindex != 0
	}
	return attached, err
}

// Taken returns the number of packets that were put into the ring.
func (r *Ring) Taken() (n uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		return 0, os.ErrClosed
	}
	err = r.objects.NdTaken.Get(&n)
	return n, err
}

// Close detaches the program from the interface. From then on the socket receives all packets. Closing twice is harmless.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		return nil
	}
	// Closing the link alone would only drop our reference. Detaching also succeeds if the interface was removed, and the attachment with
	// it.
	err := errors.Join(r.link.Detach(), r.link.Close(), r.objects.Close())
	r.objects, r.link = nil, nil
	if err != nil {
		return fmt.Errorf("bpf: close the ring at %s: %w", r.name, err)
	}
	return nil
}
