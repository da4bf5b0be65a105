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

// Opened is what was opened for a client.
type Opened interface {
	// Grant describes it, and returns the descriptors to pass: of the memory, and of each socket.
	Grant() (Grant, []int)
	// Delivered closes our copies of the descriptors: from then on the client alone keeps the sockets alive.
	Delivered() error
	// Close takes the steering away, and closes what was not delivered.
	Close() error
}

// Server leases AF_XDP to one adapter at a time, and rings to others beside it.
type Server struct {
	Allow Policy                        // who may ask; SetAllow changes it
	Open  func(Request) (Opened, error) // opens what was asked for; a HeldError has what earlier clients kept taken back
	// OpenRing opens a ring for the UDP socket of the request, which is a client's; nil when there are none.
	OpenRing func(Request) (Opened, error)
	Log      func(string) // gets a line for everything that happens, one after the other
	// The waits for a message, and for the last client to go; set by tests that cannot wait so long.
	request, handover time.Duration

	inUse chan struct{} // holds one token while a client has the adapter
	given []given       // to earlier clients; whoever has the token
	logMu sync.Mutex

	allowMu sync.Mutex // guards Allow while Serve runs

	clientsMu sync.Mutex
	clients   map[uint32]int // connected, of each user; guarded by clientsMu
}

// SetAllow says anew who may ask. Leases last, also of who may not ask any more. It may be called from any goroutine.
func (s *Server) SetAllow(p Policy) {
	s.allowMu.Lock()
	defer s.allowMu.Unlock()
	s.Allow = p
}

// admit returns the rule by which a client may ask, or an error that says why it may not.
func (s *Server) admit(conn *net.UnixConn, peer *unix.Ucred) (rule string, err error) {
	s.allowMu.Lock()
	policy := s.Allow
	s.allowMu.Unlock()
	return policy.Admit(policy.inspect(conn, peer))
}

// Listen makes the socket at path, which everybody may connect to: the server decides who may ask. A socket that nobody listens on
// any more is replaced, and nothing else is.
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
			_ = l.Close() // the first failure is reported
		}
		return nil, fmt.Errorf("listen at %s: %w%s", path, err, listenRemedy(err))
	}
	return l, nil
}

// longestTurn is how long a broker waits for others that are about to listen beside it.
const longestTurn = time.Second

// alone waits until no other broker is about to listen in a directory, but not for long: whoever may read that may say so. undo lets the next one.
func alone(directory string) (undo func()) {
	dir, err := os.Open(directory)
	if err != nil {
		return func() {} // listening says what is wrong
	}
	for end := time.Now().Add(longestTurn); unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return func() { dir.Close() }
}

// listenRemedy says what to do about a path that cannot be had, as the tail of a sentence.
func listenRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return ": make its directory first"
	case errors.Is(err, syscall.EADDRINUSE):
		return ": another process listens there, or a file that is no socket is in the way"
	}
	return ""
}

// abandoned reports whether there is a socket that nobody listens on. The kernel refuses to connect to other files in the same way.
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

// Serve answers clients until ctx ends, and returns when every lease has ended. It closes l.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	s.request, s.handover = cmp.Or(s.request, requestTimeout), cmp.Or(s.handover, handover)
	s.inUse, s.clients = make(chan struct{}, 1), map[uint32]int{}
	clientSlots, strangerSlots := make(chan struct{}, maxClients), make(chan struct{}, maxStrangers)
	ctx, end := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = l.Close() }) // the socket's file goes with it, and there is nobody to tell of a failure
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	for wanting := false; ; {
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close() // it came at the last moment, and must not wait for an answer
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
		// A client that is not admitted waits for its refusal in a place of its own, and so takes none from admitted clients.
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
			clients.Done() // not later: whoever passed a socket says how long it takes to close (SO_LINGER)
			r.drop()
		}()
	}
}

// drop closes the socket that came with a request, if there was one.
func (r *Request) drop() {
	if r.Socket > 0 {
		_ = unix.Close(r.Socket)
	}
	r.Socket = 0
}

// await waits for the request of a client, with a socket that is the caller's, also beside an error.
func (s *Server) await(conn *net.UnixConn) (r Request, err error) {
	if err := conn.SetDeadline(time.Now().Add(s.request)); err != nil {
		return r, err
	}
	return receive(conn)
}

// acceptPause is how long a broker waits for what it lacked to accept a client.
const acceptPause = 250 * time.Millisecond

// rest waits before another client is accepted. It says why, the first time.
func (s *Server) rest(ctx context.Context, why error, again bool) {
	if !again {
		s.Say("a client waits: " + why.Error() + ": let the broker have more descriptors (LimitNOFILE, ulimit -n) or memory, or fewer clients")
	}
	select {
	case <-time.After(acceptPause):
	case <-ctx.Done():
	}
}

// inWant reports whether a client could not be accepted for want of descriptors or memory, which ends with other clients or processes.
func inWant(err error) bool {
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// enter counts one more client of a user. It reports false when that are too many.
func (s *Server) enter(uid uint32) bool {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.clients[uid] == maxOfUser {
		return false
	}
	s.clients[uid]++
	return true
}

// leave counts one client of a user less.
func (s *Server) leave(uid uint32) {
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	if s.clients[uid]--; s.clients[uid] == 0 {
		delete(s.clients, uid)
	}
}

// Say gives Log a line, after the lines before. It may be called from any goroutine.
func (s *Server) Say(line string) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.Log(line)
}

// serve serves one client, with its request or what is wrong with it, to its end.
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
		return s.refuse(conn, errors.New("another process has AF_XDP: a broker leases it to one at a time"), rings)
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

// serveRing serves a client that asks for a ring. There is one for each client: nobody waits for another one's end.
func (s *Server) serveRing(conn *net.UnixConn, r *Request, lease string) error {
	if s.OpenRing == nil {
		return s.refuse(conn, errors.New("this broker has no rings"), false)
	}
	opened, err := s.OpenRing(*r)
	if err != nil {
		return s.refuse(conn, err, false)
	}
	r.drop() // the client alone keeps its port
	return errors.Join(s.deliver(conn, opened, lease+" and a ring"), opened.Close())
}

// take waits until no client has AF_XDP, for as long as the last one may need to end, or not at all. A client that gets a ring otherwise waits less. It reports whether
// that is so.
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

// refuseStranger serves a client that is not admitted: it says why. The client's request does not matter, but a connection that closes with
// unread data loses the answer.
func (s *Server) refuseStranger(why error) func(context.Context, *net.UnixConn, *unix.Ucred, string, *Request, error) error {
	return func(_ context.Context, conn *net.UnixConn, _ *unix.Ucred, _ string, _ *Request, _ error) error {
		return s.refuse(conn, why, false)
	}
}

// deliver passes the descriptors on and waits for the client's end.
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
		return errors.New("said something after it got its grant: taken back")
	}
	s.Say(line + ": given back")
	return nil
}

// receive reads a request. The socket that came with it is the caller's, also beside an error.
func receive(conn *net.UnixConn) (r Request, err error) {
	buf, control := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(4)) // what does not fit is dropped by the kernel
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

// refuse tells the client why, as far as it still listens, and returns the reason.
// rings says that the client may have a ring.
func (s *Server) refuse(conn *net.UnixConn, reason error, rings bool) error {
	message, err := encode(refusal(reason, rings))
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(s.request))
	}
	if err == nil {
		_, _ = conn.Write(message) // a client that does not wait for the answer does not need it
	}
	return errors.Join(reason, err)
}

// credentials asks the kernel who connected.
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
