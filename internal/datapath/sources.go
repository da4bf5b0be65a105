package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/udp"
	"github.com/ndxdp/ndxdp/wire"
)

// sources are the sockets from which packets leave over plain UDP: the receiving socket, and one for each other source port (PROTOCOL
// §2). Its methods may be called from any goroutine.
type sources struct {
	network *udp.Network
	in      *udp.Socket // has the port of cfg.Local
	cfg     udp.Config  // configuration of all other sockets, except the port and Runs
	most    int         // maximum number of sockets at a time, 0 for no limit but the process's

	taken, noDescriptors atomic.Uint64 // the counters Stats.PortTaken and Stats.NoDescriptors

	mu     sync.Mutex
	opened map[uint16]*source // guarded by mu
}

// source is the socket of a source port, shared by the paths that have it. It is closed with the last of them.
type source struct {
	socket *udp.Socket
	port   uint16
	paths  int // guarded by sources.mu
}

// get returns the socket of a source port for one more path, and opens it for the first path. runs says whether it sends GSO batches.
// Failures are counted.
func (s *sources) get(port uint16, runs bool) (from *source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.opened[port]
	if from == nil {
		if from, err = s.open(port, runs); err != nil {
			s.count(err)
			return nil, sourceError(err)
		}
		s.opened[port] = from
	}
	from.paths++
	return from, nil
}

// ErrPortTaken means that another socket of this machine has the UDP port. Another port may be free.
var ErrPortTaken = udp.ErrPortTaken

// lacksDescriptors reports whether the process, or the machine, has no free descriptor.
func lacksDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// count counts a source port that got no socket.
func (s *sources) count(err error) {
	if lacksDescriptors(err) {
		s.noDescriptors.Add(1)
	} else {
		s.taken.Add(1)
	}
}

// addTo adds the counters to the counters of a device.
func (s *sources) addTo(to *Stats) {
	to.PortTaken += s.taken.Load()
	to.NoDescriptors += s.noDescriptors.Load()
}

// sourceError adds the remedy to the error of a source port that got no socket.
func sourceError(err error) error {
	remedy := "another program has the port, and most others, too: see ss -uan"
	switch {
	case lacksDescriptors(err):
		remedy = moreDescriptors
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		remedy = "the kernel has no memory left for the socket"
	case !errors.Is(err, ErrPortTaken):
		return fmt.Errorf("open a socket for a source port: %w", err)
	}
	return fmt.Errorf("open a socket for a source port: %w: %s", err, remedy)
}

// open makes the socket of a port. The caller holds mu.
func (s *sources) open(port uint16, runs bool) (*source, error) {
	if port == s.cfg.Local.Port() {
		return &source{socket: s.in, port: port}, nil
	}
	if s.most > 0 && len(s.opened) >= s.most {
		return nil, fmt.Errorf("%d sockets for source ports are open: %w", s.most, unix.EMFILE)
	}
	cfg := s.cfg
	cfg.Local, cfg.Runs = netip.AddrPortFrom(cfg.Local.Addr(), port), runs
	socket, err := s.network.Open(cfg)
	if err != nil && port == wire.SourcePort(0) {
		s.count(err)
		return &source{socket: s.in, port: port}, nil // usually another adapter answers packets without a connection from this port
	}
	if err != nil {
		return nil, err
	}
	return &source{socket: socket, port: port}, nil
}

// put releases a socket that get returned. The socket that answers packets without a connection stays open, because they come at any
// time.
func (s *sources) put(from *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from.paths--; from.paths > 0 || from.port == wire.SourcePort(0) || s.opened[from.port] != from { // close may have closed it already
		return
	}
	delete(s.opened, from.port)
	if from.socket != s.in {
		_ = from.socket.Close() // no data that matters is buffered in it
	}
}

// hold returns the socket of a source port, or nil if no path uses it. The caller calls put. Until then the socket stays open, even if
// the owner of another port closes the last path.
func (s *sources) hold(port uint16) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.opened[port]
	if from != nil {
		from.paths++
	}
	return from
}

// close closes all sockets except the receiving socket.
func (s *sources) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range s.opened {
		if from.socket != s.in {
			err = errors.Join(err, from.socket.Close())
		}
	}
	clear(s.opened)
	return err
}
