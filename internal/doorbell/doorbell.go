// Package doorbell reserves an address for an adapter until the first packet arrives. It holds the ports and waits for the packet.
// This takes three descriptors and a fraction of a millisecond; an adapter takes ten descriptors and ten milliseconds.
package doorbell

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/ports"
	"github.com/ndxdp/ndxdp/internal/udp"
)

// waitingBuffer holds requests that arrive while the adapter is being opened.
const waitingBuffer = 256 << 10

// errAlike means that an address cannot be reserved, because the process may use several network namespaces and the kernel does not
// tell the namespace of a socket.
var errAlike = errors.New("the kernel does not tell the cookie of a network namespace")

// Held is the reservation that an adapter takes over.
type Held struct {
	Network *udp.Network
	Space   *ports.Space
	Holding *ports.Holding
	Socket  *udp.Socket // at the well-known port, without the options of an adapter
}

// Close releases the reservation.
func (h *Held) Close() error {
	var errs []error
	if h.Socket != nil {
		errs = append(errs, h.Socket.Close())
	}
	return errors.Join(append(errs, h.Space.Close(), h.Holding.Close(), h.Network.Close())...)
}

// Bell is a reserved address. Any goroutine may call its methods.
type Bell struct {
	key  key
	port uint16 // the claimed ND port
	held Held
	file *os.File // the socket, registered with the runtime's poller
	raw  syscall.RawConn
	rung chan struct{}
	once sync.Once
	err  error
}

// key identifies a well-known port in a network namespace.
type key struct {
	namespace uint64
	at        netip.AddrPort
}

var (
	mu   sync.Mutex
	hung = map[key]*Bell{} // guarded by mu
)

// Hang reserves a well-known port and one ND port of its address, in the calling thread's network namespace. If it fails, an
// adapter may still be opened.
func Hang(at netip.AddrPort, port uint16) (_ *Bell, err error) {
	network, err := udp.NewNetwork()
	if err != nil {
		return nil, err
	}
	b := &Bell{
		key: key{network.Namespace(), at}, port: port, rung: make(chan struct{}),
		held: Held{Network: network, Space: ports.NewSpace(network, at), Holding: ports.NewHolding(network, at)},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.held.Close())
		}
	}()
	if b.key.namespace == 0 {
		return nil, errAlike
	}
	if err := errors.Join(b.held.Holding.Try(), b.held.Space.Claim(port)); err != nil {
		return nil, err
	}
	s, err := network.Open(udp.Config{Local: at, ReceiveBuffer: waitingBuffer})
	if err != nil {
		return nil, err
	}
	b.file = os.NewFile(uintptr(s.FD()), "well-known port")
	if b.raw, err = b.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, b.file.Close())
	}
	mu.Lock()
	hung[b.key] = b
	mu.Unlock()
	go b.listen()
	return b, nil
}

// listen waits for a packet, which it leaves in the socket for the adapter.
func (b *Bell) listen() {
	defer close(b.rung)
	var first [1]byte
	_ = b.raw.Read(func(fd uintptr) bool { // fails after the socket is taken
		_, _, err := unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN)
	})
}

// Rung returns a channel that is closed when a packet has arrived, when an adapter has taken the reservation, or on Close.
func (b *Bell) Rung() <-chan struct{} { return b.rung }

// Take passes the reservation of a well-known port to an adapter, or returns nil if there is none. The ND port stays claimed until
// Close.
func Take(network *udp.Network, at netip.AddrPort) (*Held, error) {
	k := key{network.Namespace(), at}
	mu.Lock()
	b := hung[k]
	delete(hung, k)
	mu.Unlock()
	if b == nil {
		return nil, nil
	}
	h := b.held
	var fd int
	var failed error
	err := b.raw.Control(func(old uintptr) {
		fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, failed); err == nil {
		h.Socket = udp.SocketOf(fd, at.Addr())
	}
	err = errors.Join(err, b.file.Close())
	<-b.rung // the listener does not use the socket any more
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &h, nil
}

// Close releases the ND port, and the reservation if no adapter has taken it. Further calls have no effect.
func (b *Bell) Close() error {
	b.once.Do(func() {
		b.held.Space.Release(b.port)
		mu.Lock()
		mine := hung[b.key] == b
		if mine {
			delete(hung, b.key)
		}
		mu.Unlock()
		if mine {
			b.err = errors.Join(b.file.Close(), b.held.Close())
		}
		<-b.rung
	})
	return b.err
}
