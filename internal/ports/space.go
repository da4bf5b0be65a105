package ports

import (
	"errors"
	"hash/maphash"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/internal/user"
)

const (
	// mostHandedOver bounds the requests that are handed to other processes in a second for one bucket of sources, 4 µs each. A source that asks more often costs the
	// others of its bucket, and there are sourceBuckets.
	mostHandedOver, sourceBuckets = 1024, 32
	// fullFor is how long the queue of another process may be full until its requests are refused in its place.
	fullFor = time.Second
	// mostFull bounds the ports whose queues are known to be full.
	mostFull = 256
)

// Handed is what became of a request for an ND port that is not ours.
type Handed uint8

// The results of Hand.
const (
	Nobody  Handed = iota // nobody has the port
	Done                  // it is on its way
	Dropped               // the queue there is full, or there are too many requests
	Refused               // the queue there has been full for long: nobody reads it
)

// Space is the ND ports of an address, as one adapter sees them. All methods may be called from any goroutine.
type Space struct {
	network *udp.Network
	at      netip.Addr
	place   place
	take    func(Request) // set by Serve

	mu     sync.Mutex // guards all below
	owned  map[uint16]*owned
	marks  map[uint16]*mark // by the first port of the block
	served bool
	closed bool
	full   map[uint16]time.Time
	second time.Time
	handed [sourceBuckets]int // in that second
	seed   maphash.Seed       // of the buckets: nobody chooses whose bucket to fill

	malformed atomic.Uint64 // messages from other processes that were none
	readers   sync.WaitGroup
}

// owned is a port that is ours.
type owned struct {
	conn *net.UnixConn
	uses int
}

// mark is the descriptor of a mark of ours.
type mark struct{ fd, uses int }

// NewSpace returns the ports of an address and well-known UDP port. Nothing is taken yet. The network belongs to the caller, and outlives the space.
func NewSpace(network *udp.Network, at netip.AddrPort) *Space {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return &Space{network: network, at: at.Addr(), place: placeOf(at), owned: map[uint16]*owned{}, marks: map[uint16]*mark{}, full: map[uint16]time.Time{}, seed: maphash.MakeSeed()}
}

// Serve hands over what other processes receive for our ports: take is called from goroutines, with a packet that is good until it returns.
func (s *Space) Serve(take func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served || s.closed {
		return
	}
	s.take, s.served = take, true
	for _, o := range s.owned {
		s.readers.Go(func() { s.read(o.conn) })
	}
}

// Claim takes a port for this adapter alone; each Claim is undone by a Release. The error is ErrTaken when another one of the machine has it; any other one says why this process cannot take ports, as when it has no descriptor left.
func (s *Space) Claim(port uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	o := s.owned[port]
	if o == nil {
		conn, err := s.open(s.place.of(port))
		if err != nil {
			return err
		}
		o = &owned{conn: conn}
		s.owned[port] = o
		if s.served {
			s.readers.Go(func() { s.read(conn) })
		}
	}
	o.uses++
	return nil
}

// Release undoes one Claim.
func (s *Space) Release(port uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owned[port]
	if o == nil {
		return
	}
	if o.uses--; o.uses == 0 {
		delete(s.owned, port)
		_ = o.conn.Close() // its reader ends
	}
}

// Mark says to the other adapters of the machine that this one chooses automatic ports from the block that begins at first, and reports whether no other one had said so; each
// Mark that reports true is undone by an Unmark. A mark keeps apart what adapters choose. It is no right: an adapter that finds the blocks marked chooses ports of them, so that
// nobody who marks them all takes a port away.
func (s *Space) Mark(first uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.marks[first]; m != nil {
		m.uses++
		return true
	}
	if s.closed {
		return false
	}
	fd, err := s.network.Socket(unix.AF_UNIX, unix.SOCK_STREAM) // one that does not listen: nothing comes in
	if err != nil {
		return false
	}
	if bind(fd, s.place.mark(first)) != nil {
		_ = unix.Close(fd) // nothing was written through it
		return false
	}
	s.marks[first] = &mark{fd, 1}
	return true
}

// Unmark undoes one Mark.
func (s *Space) Unmark(first uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.marks[first]
	if m == nil {
		return
	}
	if m.uses--; m.uses == 0 {
		delete(s.marks, first)
		_ = unix.Close(m.fd) // as above
	}
}

// open makes the socket of a name.
func (s *Space) open(name string) (*net.UnixConn, error) {
	fd, err := s.network.Socket(unix.AF_UNIX, unix.SOCK_DGRAM)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1), bind(fd, name)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	conn, err := net.FilePacketConn(f) // has a descriptor of its own
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// message is room for one from another process, with a byte more than the longest, and for its sender's credentials.
type message struct {
	data    [maxMessage + 1]byte
	control [32]byte // unix.CmsgSpace(unix.SizeofUcred)
}

// messages are lent to readers while there is something to read: an adapter with many connections has hundreds of sockets, and requests are rare.
var messages = sync.Pool{New: func() any { return new(message) }}

// read takes requests until the socket is closed.
func (s *Space) read(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	for err == nil {
		err = raw.Read(s.readOne)
	}
}

// readOne takes what waits at a socket, and reports false when nothing did.
func (s *Space) readOne(fd uintptr) bool {
	m := messages.Get().(*message)
	defer messages.Put(m)
	n, oob, _, _, err := unix.Recvmsg(int(fd), m.data[:], m.control[:], unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return errors.Is(err, unix.EINTR)
	}
	r, ok := parse(m.data[:n], s.at)
	if !ok || n > maxMessage {
		s.malformed.Add(1)
		return true
	}
	r.Trusted = trusted(m.control[:oob])
	s.take(r)
	return true
}

// trusted reports whether the sender of a message may be believed.
func trusted(control []byte) bool {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for i := range messages {
		if who, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			return user.Trusted(who.Uid)
		}
	}
	return false
}

// Hand gives a request that arrived at the well-known port, in pieces, to the process that has the ND port. It does not block.
func (s *Space) Hand(port uint16, from netip.AddrPort, to uint16, pieces [][]byte, now time.Time) Handed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.owned[port] != nil {
		return Nobody
	}
	if !s.mayHand(from.Addr(), now) {
		return Dropped
	}
	var room [requestHeader]byte
	all := append([][]byte{appendHeader(room[:0], from, to)}, pieces...)
	return s.outcome(port, s.send(s.place.of(port), all), now)
}

// mayHand counts a request of a source, and says whether that is not too many. The caller holds mu.
func (s *Space) mayHand(source netip.Addr, now time.Time) bool {
	if now.Sub(s.second) >= time.Second {
		s.second, s.handed = now, [sourceBuckets]int{}
	}
	if source.Is6() { // a source has its /64
		source = netip.PrefixFrom(source, 64).Masked().Addr()
	}
	n := &s.handed[maphash.Comparable(s.seed, source)%sourceBuckets]
	if *n >= mostHandedOver {
		return false
	}
	*n++
	return true
}

// send sends a message from a socket of its own to a name. What a receiver does not read fills the send buffer of the socket that it came from: with one socket for all
// messages, a process that reads nothing would keep messages from the others.
func (s *Space) send(name string, pieces [][]byte) error {
	fd, err := s.network.Socket(unix.AF_UNIX, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	_, err = unix.SendmsgBuffers(fd, pieces, nil, &unix.SockaddrUnix{Name: name}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	_ = unix.Close(fd) // what was sent stays with its receiver
	return err
}

// outcome judges what a send to a port's socket returned. The caller holds mu.
func (s *Space) outcome(port uint16, err error, now time.Time) Handed {
	switch {
	case err == nil:
		delete(s.full, port)
		return Done
	case errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT):
		delete(s.full, port)
		return Nobody
	case !errors.Is(err, unix.EAGAIN):
		return Dropped
	}
	since, known := s.full[port]
	if !known {
		if len(s.full) >= mostFull {
			clear(s.full) // who is full then is noticed again
		}
		s.full[port] = now
		return Dropped
	}
	if now.Sub(since) >= fullFor {
		return Refused
	}
	return Dropped
}

// Close gives everything back, and waits until take is not called any more.
func (s *Space) Close() error {
	s.mu.Lock()
	s.closed = true
	var errs []error
	for port, o := range s.owned {
		errs = append(errs, o.conn.Close())
		delete(s.owned, port)
	}
	for first, m := range s.marks {
		errs = append(errs, unix.Close(m.fd))
		delete(s.marks, first)
	}
	s.mu.Unlock()
	s.readers.Wait()
	return errors.Join(errs...)
}
