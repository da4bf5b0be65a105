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

	// addressing orders calls of AddAddress among each other.
	addressing sync.Mutex
	mu         sync.RWMutex // guards the kernel objects against Close while a call uses them
	// Owned by the Steering; nil once closed.
	objects *steerObjects
	link    link.Link
}

// SetSocket directs ND packets of a receive queue to the AF_XDP socket fd, in place of the queue's former one. The
// kernel removes the entry when the socket closes. The descriptor stays the caller's.
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

// AddAddress makes a unicast address one of ours: ND packets to it are steered, ND packets from it are dropped. Adding
// an address twice is not an error. A zone is ignored.
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

// setSingle gives the program its short cut while there is exactly one address. NdSingle is zero when it is called.
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
	var words [4]uint32 // as they lie in memory
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(only[4*i:])
	}
	if err := o.NdOnly.Set(steerNdAddr{Word: words}); err != nil {
		return err
	}
	return o.NdSingle.Set(uint32(1))
}

// Counters returns the number of frames for each verdict since Attach. CPUs are read one after another while frames arrive, so the numbers
// of one call may be some frames apart.
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

// Attached says whether the program still sees the frames of the interface: a process with the privileges can take it off (bpftool link detach).
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
	// Detaching first makes it immediate: closing only gives up our reference.
	err := s.link.Detach()
	if errors.Is(err, syscall.ENOLINK) || errors.Is(err, syscall.ENODEV) {
		err = nil // the interface is gone, and the attachment with it
	}
	err = errors.Join(err, s.link.Close(), s.objects.Close())
	s.objects, s.link = nil, nil
	if err != nil {
		return fmt.Errorf("bpf: close steering of %s: %w", s.cfg.Interface, err)
	}
	return nil
}

// use runs fn on the kernel objects and puts operation, object and interface before its error.
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
