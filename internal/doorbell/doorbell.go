// Package doorbell keeps an address for an adapter that nobody has called yet. It holds what others of the machine must not take meanwhile, and notices the
// first packet, which waits for the adapter. That takes three descriptors and a fraction of a millisecond, and an adapter ten and ten.
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

// waitingBuffer holds the requests that come while the adapter is opened.
const waitingBuffer = 256 << 10

// errAlike says why an address cannot be kept: this process may use several network namespaces, and the kernel does not tell which one a socket is of.
var errAlike = errors.New("the kernel does not name network namespaces")

// Held is what a bell holds, and an adapter takes.
type Held struct {
	Network *udp.Network
	Space   *ports.Space
	Holding *ports.Holding
	Socket  *udp.Socket // at the well-known port, without the options of an adapter
}

// Close gives it back.
func (h *Held) Close() error {
	var errs []error
	if h.Socket != nil {
		errs = append(errs, h.Socket.Close())
	}
	return errors.Join(append(errs, h.Space.Close(), h.Holding.Close(), h.Network.Close())...)
}

// Bell is an address that is kept. Its methods may be called from any goroutine.
type Bell struct {
	key  key
	port uint16 // the ND port that is claimed
	held Held
	file *os.File // the socket, registered with the runtime's poller
	raw  syscall.RawConn
	rung chan struct{}
	once sync.Once
	err  error
}

// key names a well-known port of a network namespace.
type key struct {
	namespace uint64
	at        netip.AddrPort
}

var (
	mu   sync.Mutex
	hung = map[key]*Bell{} // guarded by mu
)

// Hang keeps a well-known port and one ND port of its address, in the calling thread's network namespace. The error says what cannot be had: an adapter may do without it.
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

// listen waits for a packet, and leaves it to the adapter.
func (b *Bell) listen() {
	defer close(b.rung)
	var first [1]byte
	_ = b.raw.Read(func(fd uintptr) bool { // it fails once the socket is taken
		_, _, err := unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN)
	})
}

// Rung is closed when a packet has come, when an adapter took what the bell holds, and by Close.
func (b *Bell) Rung() <-chan struct{} { return b.rung }

// Take gives what the bell of a well-known port holds to an adapter that is opened; nil where there is none. The ND port stays claimed until Close.
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
	<-b.rung // nobody else looks at the socket any more
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &h, nil
}

// Close gives the ND port up, and what no adapter took. Closing twice is harmless.
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
