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

// Server answers for one adapter.
type Server struct {
	adapter  Adapter
	path     string
	opened   time.Time
	inode    os.FileInfo
	listener *net.UnixListener
	slots    chan struct{} // one for every client
	stall    time.Duration // StallTimeout; less in tests
	done     sync.WaitGroup
	closing  sync.Once
	closed   error

	mu      sync.Mutex
	clients map[net.Conn]struct{} // guarded by mu; nil once closed
}

// opened counts the names that this process tried.
var opened atomic.Int32

// maxNames bounds the names that are tried for one socket: processes of several PID namespaces may have the same number, and share the directory.
const maxNames = 64

// Serve opens an adapter to whoever may use the socket at path, which has mode 0600; without a path it is named after the process in
// Directory, and what killed processes left there is removed. Any goroutine may call it.
//
// Errors: those of the operating system, and that somebody listens at path.
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

// listenAt listens at path, or where this process finds a name in Directory.
func listenAt(path string) (l *net.UnixListener, at string, err error) {
	if path != "" {
		if path, err = filepath.Abs(path); err == nil {
			l, err = listen(path)
		}
		return l, path, err
	}
	if _, err := user.RuntimeDirectory(); err != nil {
		return nil, "", fmt.Errorf("find a directory for the socket: %w: log in, or name a path", err)
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

// Path returns the socket's.
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
		for ; err != nil; c, err = s.listener.Accept() {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptPause) // the process has no descriptors left, for now
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
	in.Buffer(make([]byte, 0, MaxRequestBytes), MaxRequestBytes)
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
