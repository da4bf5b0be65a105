package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/cilium/ebpf/link"
)

// MaxAddresses is the largest number of local addresses of one Steering.
const MaxAddresses = 1024

// Steering is the attached program and its maps. Its methods may be called from any goroutine.
type Steering struct {
	// Constant.
	cfg Config

	// addressing serializes calls of AddAddress.
	addressing sync.Mutex
	mu         sync.RWMutex // keeps Close from closing the kernel objects while a call uses them
	// These belong to the Steering, and are nil after Close.
	objects *steerObjects
	link    link.Link
}

// SetSocket makes the AF_XDP socket fd receive the ND packets of a receive queue, instead of the queue's previous socket. The kernel
// removes the entry when the socket closes. The caller keeps the descriptor.
func (s *Steering) SetSocket(queue uint32, fd int) error {
	return s.use("set socket", fmt.Sprintf("queue %d", queue), func(o *steerObjects) error {
		if err := s.checkQueue(queue); err != nil {
			return err
		}
		if fd < 0 {
			return syscall.EBADF
		}
		err := o.NdSockets.Put(queue, uint32(fd))
		if errors.Is(err, syscall.EOPNOTSUPP) {
			return fmt.Errorf("descriptor %d is not an AF_XDP socket: %w", fd, err)
		}
		return err
	})
}

// AddAddress adds a unicast address of this adapter. ND packets to it are steered, and ND packets from it are dropped. Adding an address
// twice is not an error. A zone is ignored.
func (s *Steering) AddAddress(a netip.Addr) error {
	s.addressing.Lock()
	defer s.addressing.Unlock()
	return s.use("add address", a.String(), func(o *steerObjects) error {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			return errors.New("not a unicast address")
		}
		if err := o.NdSingle.Set(uint32(0)); err != nil {
			return err
		}
		err := o.NdLocal.Put(addressKey(a), uint8(1))
		if errors.Is(err, syscall.E2BIG) {
			return fmt.Errorf("more than %d addresses: %w", MaxAddresses, err)
		}
		return errors.Join(err, o.setSingle())
	})
}

// setSingle sets the program's fast path for exactly one address. NdSingle must be zero before the call.
func (o *steerObjects) setSingle() error {
	var key, only [16]byte
	var value uint8
	n := 0
	it := o.NdLocal.Iterate()
	for n < 2 && it.Next(&key, &value) {
		only = key
		n++
	}
	if err := it.Err(); err != nil || n != 1 {
		return err
	}
	var words [4]uint32 // as the bytes are in memory
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(only[4*i:])
	}
	if err := o.NdOnly.Set(steerNdAddr{Word: words}); err != nil {
		return err
	}
	return o.NdSingle.Set(uint32(1))
}

// Counters returns the number of frames for each verdict since Attach. CPUs are read one after another while frames arrive, so the
// numbers of one call may differ by some frames.
func (s *Steering) Counters() (Counters, error) {
	var counters Counters
	err := s.use("read", "counters", func(o *steerObjects) error {
		var perCPU []uint64
		for v := range counters {
			if err := o.NdVerdicts.Lookup(uint32(v), &perCPU); err != nil {
				return err
			}
			for _, n := range perCPU {
				counters[v] += n
			}
		}
		return nil
	})
	return counters, err
}

// Attached reports whether the program still receives the frames of the interface. A process with privileges can detach it (bpftool link
// detach).
func (s *Steering) Attached() (attached bool, err error) {
	err = s.use("look at", "the attachment", func(*steerObjects) error {
		info, err := s.link.Info()
		if err == nil {
			attached = info.XDP() != nil && info.XDP().Ifindex != 0
		}
		return err
	})
	return attached, err
}

// Close detaches the program; from then on all frames pass. Closing twice is harmless.
func (s *Steering) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		return nil
	}
	// Detaching takes effect at once, while closing the link only drops our reference.
	err := s.link.Detach()
	if errors.Is(err, syscall.ENOLINK) || errors.Is(err, syscall.ENODEV) {
		err = nil // the interface was removed, and the attachment with it
	}
	err = errors.Join(err, s.link.Close(), s.objects.Close())
	s.objects, s.link = nil, nil
	if err != nil {
		return fmt.Errorf("bpf: close steering of %s: %w", s.cfg.Interface, err)
	}
	return nil
}

// use runs fn on the kernel objects, and adds operation, object and interface to its error.
func (s *Steering) use(op, object string, fn func(*steerObjects) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err := os.ErrClosed
	if s.objects != nil {
		err = fn(s.objects)
	}
	if err != nil {
		return fmt.Errorf("bpf: %s %s of %s: %w", op, object, s.cfg.Interface, err)
	}
	return nil
}

func (s *Steering) checkQueue(queue uint32) error {
	if queue >= uint32(s.cfg.Queues) {
		return fmt.Errorf("attached with %d queues: %w", s.cfg.Queues, syscall.ERANGE)
	}
	return nil
}

// addressKey is a key of nd_local: the address in network order, IPv4 mapped into IPv6.
func addressKey(a netip.Addr) [16]byte { return a.As16() }
