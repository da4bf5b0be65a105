package inspect

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

	"github.com/ndxdp/ndxdp/internal/user"
)

// Server answers requests about one adapter.
type Server struct {
	adapter  Adapter
	path     string
	opened   time.Time
	inode    os.FileInfo
	listener *net.UnixListener
	slots    chan struct{} // one for each client
	stall    time.Duration // StallTimeout, or less in tests
	done     sync.WaitGroup
	closing  sync.Once
	closed   error

	mu      sync.Mutex
	clients map[net.Conn]struct{} // guarded by mu; nil after Close
}

// opened counts the names that this process has tried.
var opened atomic.Int32

// maxNames bounds the names tried for one socket, because processes of several PID namespaces may have equal ids and share the
// directory.
const maxNames = 64

// Serve listens on the socket at path, which has mode 0600. If path is empty, the socket is named after the process in Directory,
// and sockets of killed processes there are removed. Any goroutine may call it.
//
// Errors: errors of the operating system, and an error if another process listens at path.
func Serve(a Adapter, path string) (*Server, error) { return serve(a, path, StallTimeout) }

func serve(a Adapter, path string, stall time.Duration) (*Server, error) {
	l, path, err := listenAt(path)
	if err != nil {
		return nil, err
	}
	s := &Server{adapter: a, path: path, opened: time.Now(), listener: l, slots: make(chan struct{}, maxClients), stall: stall, clients: map[net.Conn]struct{}{}}
	if s.inode, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s.done.Go(s.accept)
	return s, nil
}

// listenAt listens at path, or if it is empty at a free name in Directory.
func listenAt(path string) (l *net.UnixListener, at string, err error) {
	if path != "" {
		if path, err = filepath.Abs(path); err == nil {
			l, err = listen(path)
		}
		return l, path, err
	}
	if _, err := user.RuntimeDirectory(); err != nil {
		return nil, "", fmt.Errorf("find a directory for the inspection socket: %w: log in, so that XDG_RUNTIME_DIR is set, or choose a path", err)
	}
	dir := Directory()
	sweep(dir)
	for range maxNames {
		path = filepath.Join(dir, name(int(opened.Add(1)-1)))
		if l, err = listen(path); !errors.Is(err, errTaken) {
			break
		}
	}
	return l, path, err
}

// Path returns the path of the socket.
func (s *Server) Path() string { return s.path }

// Close removes the socket, closes every client's connection and waits until all goroutines have ended. Further calls have no
// effect.
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
		for ; err != nil; c, err = s.listener.Accept() {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptPause) // the process has no free descriptor at present
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

// serve serves one client until it leaves, is silent for too long, or sends an invalid request.
func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		<-s.slots
	}()
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 0, MaxRequestBytes), MaxRequestBytes)
	out := json.NewEncoder(c)
	for {
		_ = c.SetDeadline(time.Now().Add(idleTimeout)) // a closed connection fails below
		if !in.Scan() {
			return
		}
		var q Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(ReplyTimeout))
		if q.Capture != nil && q.Version == Version {
			s.stream(c, q)
			return
		}
		if out.Encode(s.answer(q)) != nil {
			return
		}
	}
}

func (s *Server) head() Head {
	return Head{Version: Version, PID: os.Getpid(), Command: filepath.Base(os.Args[0]), At: time.Now(), Opened: s.opened}
}

func (s *Server) answer(q Request) any {
	h := s.head()
	if q.Version != Version {
		h.Error = fmt.Sprintf("this process speaks version %d of the protocol, and was asked in version %d", Version, q.Version)
		return h
	}
	return s.adapter.Answer(h, q)
}
