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
	// mostHandedOver bounds the requests that are handed to other processes in a second for one bucket of sources. Each costs 4 µs. A
	// source that sends more affects only the other sources of its bucket. There are sourceBuckets buckets.
	mostHandedOver, sourceBuckets = 1024, 32
	// fullFor is how long the queue of another process may be full before its requests are refused.
	fullFor = time.Second
	// mostFull bounds the number of ports whose queues are recorded as full.
	mostFull = 256
)

// Handed is the result of handing over a request for another adapter's ND port.
type Handed uint8

// These are the results of Hand.
const (
	Nobody  Handed = iota // no process has the port
	Done                  // the request was handed over
	Dropped               // the queue of the port is full, or there are too many requests
	Refused               // the queue of the port has been full for long, so no process reads it
)

// Space is the ND ports of an address from the view of one adapter. All methods may be called from any goroutine.
type Space struct {
	network *udp.Network
	at      netip.Addr
	place   place
	take    func(Request) // set by Serve

	mu     sync.Mutex // guards all below
	owned  map[uint16]*owned
	marks  map[uint16]*mark // the key is the first port of the block
	served bool
	closed bool
	full   map[uint16]time.Time
	second time.Time
	handed [sourceBuckets]int // in that second
	seed   maphash.Seed       // for the buckets, so that no sender can choose the bucket of a source

	malformed atomic.Uint64 // invalid messages from other processes
	readers   sync.WaitGroup
}

// owned is a port of this adapter.
type owned struct {
	conn *net.UnixConn
	uses int
}

// mark is the descriptor of a mark of this adapter.
type mark struct{ fd, uses int }

// NewSpace returns the ports of an address and well-known UDP port. No name is taken yet. The network belongs to the caller, and outlives
// the space.
func NewSpace(network *udp.Network, at netip.AddrPort) *Space {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return &Space{network: network, at: at.Addr(), place: placeOf(at), owned: map[uint16]*owned{}, marks: map[uint16]*mark{}, full: map[uint16]time.Time{}, seed: maphash.MakeSeed()}
}

// Serve receives requests that other processes hand over for our ports. take is called from goroutines, with a packet that is valid until
// it returns.
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

// Claim takes a port for this adapter alone. Each Claim is undone by a Release. The error is ErrTaken if another adapter of the machine
// has the port. Other errors say why this process cannot take ports, for example because no descriptor is free.
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

// Mark tells other adapters of the machine that this adapter chooses automatic ports from the block that begins at first. It reports
// whether no other adapter had marked the block. Each Mark that returns true is undone by an Unmark. Marks make adapters choose different
// ports. A mark is not a right: if all blocks are marked, an adapter chooses ports of marked blocks. So marking all blocks takes no ports
// away.
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
	fd, err := s.network.Socket(unix.AF_UNIX, unix.SOCK_STREAM) // the socket does not listen, so nothing arrives
	if err != nil {
		return false
	}
	if bind(fd, s.place.mark(first)) != nil {
		_ = unix.Close(fd) // no data was written, so an error does not matter
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

// open opens the socket of a name.
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
	conn, err := net.FilePacketConn(f) // conn has a descriptor of its own
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// message is a buffer for a message from another process, one byte longer than the longest, and for the sender's credentials.
type message struct {
	data    [maxMessage + 1]byte
	control [32]byte // unix.CmsgSpace(unix.SizeofUcred)
}

// messages lends buffers to readers only while there is something to read. An adapter with many connections has hundreds of sockets, and
// requests are rare.
var messages = sync.Pool{New: func() any { return new(message) }}

// read receives requests until the socket is closed.
func (s *Space) read(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	for err == nil {
		err = raw.Read(s.readOne)
	}
}

// readOne receives the message that waits at a socket, and returns false if there is none.
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

// trusted reports whether the sender of a message is root or this user.
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

// Hand passes a request that arrived at the well-known port, in pieces, to the process that has the ND port. It does not block.
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

// mayHand counts a request of a source, and reports whether it may be handed over. The caller holds mu.
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

// send sends a message from a socket of its own to a name. Unread messages fill the send buffer of the sending socket. If all messages
// left by one socket, a process that reads nothing would block messages for other processes.
func (s *Space) send(name string, pieces [][]byte) error {
	fd, err := s.network.Socket(unix.AF_UNIX, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	_, err = unix.SendmsgBuffers(fd, pieces, nil, &unix.SockaddrUnix{Name: name}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	_ = unix.Close(fd) // a sent message stays with its receiver
	return err
}

// outcome returns the result of a send to a port's socket. The caller holds mu.
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
			clear(s.full) // a queue that is still full will be noticed again
		}
		s.full[port] = now
		return Dropped
	}
	if now.Sub(since) >= fullFor {
		return Refused
	}
	return Dropped
}

// Close closes all sockets, and waits until take does not run.
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
