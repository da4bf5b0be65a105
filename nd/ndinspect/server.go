package ndinspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Server answers for one adapter.
type Server struct {
	adapter  *nd.Adapter
	path     string
	inode    os.FileInfo
	listener *net.UnixListener
	slots    chan struct{} // one for every client
	stall    time.Duration // stallTimeout; less in tests
	done     sync.WaitGroup
	closing  sync.Once
	closed   error

	mu      sync.Mutex
	clients map[net.Conn]struct{} // guarded by mu; nil once closed
}

// opened counts the default paths that this process took.
var opened atomic.Int32

// Serve opens the adapter to whoever may use the socket at path, which has mode 0600; without a path it is named after the
// process in Directory. Close it before the adapter.
//
// Errors: nd.ErrInvalidParameter when a is nil, those of the operating system, and that somebody listens at path.
func Serve(a *nd.Adapter, path string) (*Server, error) { return serve(a, path, stallTimeout) }

func serve(a *nd.Adapter, path string, stall time.Duration) (*Server, error) {
	if a == nil {
		return nil, fmt.Errorf("ndinspect: serve: no adapter: %w", nd.ErrInvalidParameter)
	}
	if path == "" {
		path = defaultPath(int(opened.Add(1) - 1))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("ndinspect: %w", err)
	}
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{adapter: a, path: path, listener: l, slots: make(chan struct{}, maxClients), stall: stall, clients: map[net.Conn]struct{}{}}
	if s.inode, err = os.Lstat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("ndinspect: %w", err), l.Close())
	}
	s.done.Go(s.accept)
	return s, nil
}

// Path is the socket's.
func (s *Server) Path() string { return s.path }

// Close removes the socket, ends every client's connection and waits until nothing runs any more. Closing twice is harmless.
func (s *Server) Close() error {
	s.closing.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.inode) {
			s.closed = os.Remove(s.path)
		}
		s.closed = errors.Join(s.closed, s.listener.Close())
		s.mu.Lock()
		for c := range s.clients {
			c.Close()
		}
		s.clients = nil
		s.mu.Unlock()
		s.done.Wait()
	})
	return s.closed
}

func (s *Server) accept() {
	for {
		s.slots <- struct{}{}
		c, err := s.listener.Accept()
		if err != nil { // closed
			return
		}
		s.mu.Lock()
		if s.clients == nil {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.clients[c] = struct{}{}
		s.done.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

// serve answers one client until it goes, is silent for too long, or sends something else than requests.
func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		<-s.slots
	}()
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 0, maxRequestBytes), maxRequestBytes)
	out := json.NewEncoder(c)
	for {
		_ = c.SetDeadline(time.Now().Add(idleTimeout)) // a closed connection shows below
		if !in.Scan() {
			return
		}
		var q Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(replyTimeout))
		if q.Capture != nil && q.Version == Version {
			s.stream(c, *q.Capture)
			return
		}
		if out.Encode(s.answer(q)) != nil {
			return
		}
	}
}

func (s *Server) answer(q Request) Reply {
	r := Reply{Version: Version, PID: os.Getpid(), Command: filepath.Base(os.Args[0]), At: time.Now()}
	if q.Version != Version {
		r.Error = fmt.Sprintf("this process speaks version %d of the protocol, and was asked in version %d", Version, q.Version)
		return r
	}
	r.Adapter = s.adapter.QueryAddressList()[0]
	d := s.adapter.Datapath()
	r.Datapath, r.ZeroCopy, r.Copying, r.Apart = d.Datapath.String(), d.ZeroCopy, d.Copying, d.Apart
	r.BulkPort, r.NoBulk = d.BulkPort, d.NoBulk
	r.Capturing = s.adapter.Capturing()
	r.Stats = s.adapter.Stats()
	for _, c := range s.adapter.Connections() {
		if q.Peer.IsValid() && c.Remote.Addr() != q.Peer.Unmap() {
			continue
		}
		if r.Truncated = len(r.Connections) == MaxConnections; r.Truncated {
			break
		}
		r.Connections = append(r.Connections, c)
	}
	return r
}
