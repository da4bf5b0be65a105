package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/user"
)

// Opened is what the broker opened for a client.
type Opened interface {
	// Grant describes it, and returns the descriptors to pass: the memory and each socket.
	Grant() (Grant, []int)
	// Delivered closes the broker's copies of the descriptors, so that only the client keeps the sockets alive.
	Delivered() error
	// Close stops the steering of packets, and closes descriptors that were not delivered.
	Close() error
}

// Server leases AF_XDP to one client at a time, and rings to other clients.
type Server struct {
	Allow Policy                        // who may use the broker; SetAllow changes it
	Open  func(Request) (Opened, error) // opens what was requested; after a HeldError, sockets of earlier clients are taken back
	// OpenRing opens a ring for the client's UDP socket in the request; nil if there are no rings.
	OpenRing func(Request) (Opened, error)
	Log      func(string) // receives a line for each event, one at a time
	// Time-outs for a request and for the end of the previous client; tests shorten them.
	request, handover time.Duration

	inUse chan struct{} // holds one token while a client has AF_XDP
	given []given       // sockets given to earlier clients; guarded by the token
	logMu sync.Mutex

	allowMu sync.Mutex // guards Allow while Serve runs

	clientsMu sync.Mutex
	clients   map[uint32]int // number of connected clients of each user; guarded by clientsMu
}

// SetAllow replaces the policy. Existing leases last, even if the new policy would not admit them. Any goroutine may call it.
func (s *Server) SetAllow(p Policy) {
	s.allowMu.Lock()
	defer s.allowMu.Unlock()
	s.Allow = p
}

// admit returns the rule that admits a client, or an error.
func (s *Server) admit(conn *net.UnixConn, peer *unix.Ucred) (rule string, err error) {
	s.allowMu.Lock()
	policy := s.Allow
	s.allowMu.Unlock()
	return policy.Admit(policy.inspect(conn, peer))
}

// Listen listens on the socket at path. Every user may connect to it, because the server decides who may use the broker. An
// abandoned socket is replaced; any other file is not.
func Listen(path string) (*net.UnixListener, error) {
	if err := user.CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer alone(filepath.Dir(path))()
	at := &net.UnixAddr{Name: path, Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", at)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(at) {
		if err = os.Remove(path); err == nil {
			l, err = net.ListenUnix("unixpacket", at)
		}
	}
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err != nil {
		if l != nil {
			_ = l.Close() // the first error is reported
		}
		return nil, fmt.Errorf("listen at %s: %w%s", path, err, listenRemedy(err))
	}
	return l, nil
}

// longestTurn is the longest time to wait for other brokers that are about to listen in the same directory.
const longestTurn = time.Second

// alone locks a directory, so that other brokers that are about to listen there wait. It does not wait long, because any user that may
// read the directory can hold the lock. undo unlocks it.
func alone(directory string) (undo func()) {
	dir, err := os.Open(directory)
	if err != nil {
		return func() {} // Listen will report the reason
	}
	for end := time.Now().Add(longestTurn); unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return func() { dir.Close() }
}

// listenRemedy returns advice for a path that cannot be used, as the end of a sentence.
func listenRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return ": make its directory first"
	case errors.Is(err, syscall.EADDRINUSE):
		return ": another process listens there, or a file that is no socket is in the way"
	}
	return ""
}

// abandoned reports whether at is a socket without a listener. The kernel refuses connections to other files with the same error.
func abandoned(at *net.UnixAddr) bool {
	info, err := os.Lstat(at.Name)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	conn, err := net.DialUnix("unixpacket", nil, at)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Serve serves clients until ctx ends, and returns when every lease has ended. It closes l.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	s.request, s.handover = cmp.Or(s.request, requestTimeout), cmp.Or(s.handover, handover)
	s.inUse, s.clients = make(chan struct{}, 1), map[uint32]int{}
	clientSlots, strangerSlots := make(chan struct{}, maxClients), make(chan struct{}, maxStrangers)
	ctx, end := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = l.Close() }) // removes the socket's file, too; an error has no receiver
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	for wanting := false; ; {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close() // it arrived too late and must not wait for an answer
			}
			return nil
		}
		if inWant(err) {
			s.rest(ctx, err, wanting)
			wanting = true
			continue
		}
		if err != nil {
			return fmt.Errorf("accept a client: %w", err)
		}
		wanting = false
		peer, err := credentials(conn)
		if err != nil {
			s.Say("refused a client: " + err.Error())
			conn.Close()
			continue
		}
		// A client that is not admitted waits in a separate queue for its refusal, and so takes no place of admitted clients.
		who := fmt.Sprintf("process %d of user %d", peer.Pid, peer.Uid)
		slots, serve := clientSlots, s.serve
		if rule, stranger := s.admit(conn, peer); stranger != nil {
			slots, serve = strangerSlots, s.refuseStranger(stranger)
		} else {
			who += fmt.Sprintf(" (%s)", rule)
		}
		select {
		case slots <- struct{}{}:
		default:
			s.Say(fmt.Sprintf("refused %s: there are %d like it already", who, cap(slots)))
			conn.Close()
			continue
		}
		if !s.enter(peer.Uid) {
			<-slots
			s.Say(fmt.Sprintf("refused %s: it has %d clients already", who, maxOfUser))
			conn.Close()
			continue
		}
		clients.Add(1)
		go func() {
			defer func() { <-slots }()
			defer s.leave(peer.Uid)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			r, err := s.await(conn)
			if err = serve(ctx, conn, peer, who, &r, err); err != nil && ctx.Err() == nil {
				s.Say(who + ": " + err.Error())
			}
			clients.Done() // not later, because the client's socket may take long to close (SO_LINGER)
			r.drop()
		}()
	}
}

// drop closes the socket that came with a request.
func (r *Request) drop() {
	if r.Socket > 0 {
		_ = unix.Close(r.Socket)
	}
	r.Socket = 0
}

// await receives the request of a client. The caller owns the request's socket, even after an error.
func (s *Server) await(conn *net.UnixConn) (r Request, err error) {
	if err := conn.SetDeadline(time.Now().Add(s.request)); err != nil {
		return r, err
	}
	return receive(conn)
}

// acceptPause is the pause after an accept failed for lack of resources.
const acceptPause = 250 * time.Millisecond

// rest pauses before the next accept. It logs the reason the first time.
func (s *Server) rest(ctx context.Context, why error, again bool) {
	if !again {
		s.Say("a client waits: " + why.Error() + ": let the broker have more descriptors (LimitNOFILE, ulimit -n) or memory, or fewer clients")
	}
	select {
	case <-time.After(acceptPause):
	case <-ctx.Done():
	}
}

// inWant reports whether an accept failed for lack of descriptors or memory, which is temporary.
func inWant(err error) bool {
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// enter counts a new client of a user. It returns false if the user has too many.
func (s *Server) enter(uid uint32) bool {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.clients[uid] == maxOfUser {
		return false
	}
	s.clients[uid]++
	return true
}

// leave counts the end of a client.
func (s *Server) leave(uid uint32) {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.clients[uid]--; s.clients[uid] == 0 {
		delete(s.clients, uid)
	}
}

// Say writes a line to Log. Any goroutine may call it.
func (s *Server) Say(line string) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.Log(line)
}

// serve serves one client until its end. wrong is the error of its request, if any.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn, peer *unix.Ucred, who string, r *Request, wrong error) error {
	if wrong != nil {
		return s.refuse(conn, wrong, false)
	}
	lease := fmt.Sprintf("%s has %s, UDP port %d", who, r.Address, r.UDPPort)
	if r.ring() {
		return s.serveRing(conn, r, lease)
	}
	rings := s.OpenRing != nil && r.Datapath == "auto"
	if !s.take(ctx, r.Unbidden, rings) {
		return s.refuse(conn, errors.New("another process has the lease of AF_XDP: a broker leases AF_XDP to one process at a time"), rings)
	}
	defer func() { <-s.inUse }()
	opened, err := s.Open(*r)
	if held := (*HeldError)(nil); errors.As(err, &held) && !r.Unbidden {
		ended, left := s.takeBack(peer.Pid)
		if err = errors.Join(err, left); ended {
			opened, err = s.Open(*r)
		}
	}
	if err != nil {
		return s.refuse(conn, err, rings)
	}
	_, fds := opened.Grant()
	err = s.remember(fds, peer.Uid)
	if err == nil {
		err = s.deliver(conn, opened, lease)
	}
	return errors.Join(err, opened.Close())
}

// serveRing serves a client that requests a ring. Each client may have one, so none waits.
func (s *Server) serveRing(conn *net.UnixConn, r *Request, lease string) error {
	if s.OpenRing == nil {
		return s.refuse(conn, errors.New("this broker leases no rings"), false)
	}
	opened, err := s.OpenRing(*r)
	if err != nil {
		return s.refuse(conn, err, false)
	}
	r.drop() // only the client keeps its port
	return errors.Join(s.deliver(conn, opened, lease+" and a ring"), opened.Close())
}

// take waits until no client has AF_XDP: for at most the time of handover, and not at all if atOnce is set. A client that may get a
// ring instead waits less. It reports whether the caller now has AF_XDP.
func (s *Server) take(ctx context.Context, atOnce, rings bool) bool {
	select {
	case s.inUse <- struct{}{}:
		return true
	default:
	}
	if atOnce {
		return false
	}
	patience := s.handover
	if rings {
		patience = min(patience, handoverOfRings)
	}
	select {
	case s.inUse <- struct{}{}:
		return true
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return false
}

// refuseStranger serves a client that is not admitted: it sends the reason. It first reads the request, because closing a
// connection with unread data would discard the answer.
func (s *Server) refuseStranger(why error) func(context.Context, *net.UnixConn, *unix.Ucred, string, *Request, error) error {
	return func(_ context.Context, conn *net.UnixConn, _ *unix.Ucred, _ string, _ *Request, _ error) error {
		return s.refuse(conn, why, false)
	}
}

// deliver passes the descriptors and waits for the client's end.
func (s *Server) deliver(conn *net.UnixConn, opened Opened, line string) error {
	grant, fds := opened.Grant()
	message, err := encode(reply{Version: version, Grant: &grant})
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(s.request)); err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix(message, unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	if err := errors.Join(opened.Delivered(), conn.SetDeadline(time.Time{})); err != nil {
		return err
	}
	s.Say(line)
	if n, _ := conn.Read(make([]byte, 1)); n > 0 {
		return errors.New("the client sent data after its grant: the lease was revoked")
	}
	s.Say(line + ": given back")
	return nil
}

// receive reads a request. The caller owns the request's socket, even after an error.
func receive(conn *net.UnixConn) (r Request, err error) {
	buf, control := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(4)) // the kernel drops what does not fit
	n, rights, _, _, err := conn.ReadMsgUnix(buf, control)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return r, fmt.Errorf("wait for a request: %w", err)
	}
	passed, err := descriptors(control[:rights])
	if len(passed) > 0 {
		r.Socket = passed[0]
		for _, more := range passed[1:] {
			_ = unix.Close(more)
		}
	}
	switch {
	case err != nil:
		return r, err
	case n > maxMessage:
		return r, fmt.Errorf("the request is longer than %d bytes", maxMessage)
	}
	if err := json.Unmarshal(buf[:n], &r); err != nil {
		return r, fmt.Errorf("understand the request: %w", err)
	}
	return r, r.check()
}

// refuse sends the reason to the client and returns it. rings means that the client may have a ring.
func (s *Server) refuse(conn *net.UnixConn, reason error, rings bool) error {
	message, err := encode(refusal(reason, rings))
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(s.request))
	}
	if err == nil {
		_, _ = conn.Write(message) // a client that has gone does not need the answer
	}
	return errors.Join(reason, err)
}

// credentials returns the credentials of the process that connected.
func credentials(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(failed, err)
}
