package ndinspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/ndxdp/ndxdp/internal/inspect"
	"github.com/ndxdp/ndxdp/internal/user"
)

// Directory returns the directory of adapters' sockets: ndxdp below $XDG_RUNTIME_DIR, otherwise below /run for root and
// /run/user/UID for other users. The variable is ignored unless it is the absolute path of a directory that belongs to this user
// and is not writable by others.
func Directory() string { return inspect.Directory() }

// Sockets lists the sockets of this user's adapters, and for root of all users' adapters. Some may belong to killed processes.
func Sockets() []string { return inspect.Sockets() }

// Namespace returns the network namespace of the calling thread, as in Reply, or 0 if unknown.
func Namespace() uint64 { return inspect.Namespace() }

// ErrGone means that the process of a socket has ended, or that its adapter was closed.
var ErrGone = errors.New("the process that made the socket ended, or closed its adapter")

// Client sends requests to one process. It is not safe for concurrent use.
type Client struct {
	path  string
	conn  *net.UnixConn
	bytes *io.LimitedReader // limits one reply
	in    *json.Decoder
}

// Dial connects to a socket. If there is no listener or no socket, the error wraps ErrGone.
func Dial(path string) (*Client, error) {
	if err := user.CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("ndinspect: %w", err)
	}
	c, err := net.DialTimeout("unix", path, inspect.ReplyTimeout)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("ndinspect: socket %s does not exist: %w", path, ErrGone)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("ndinspect: %s: %w", path, ErrGone)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("ndinspect: %s belongs to another user: run this program as its user or as root: %w", path, err)
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return nil, fmt.Errorf("ndinspect: Unix sockets are refused: permit AF_UNIX (systemd: RestrictAddressFamilies): %w", syscall.EAFNOSUPPORT)
	case err != nil:
		return nil, fmt.Errorf("ndinspect: %w", err)
	}
	r := &io.LimitedReader{R: c}
	return &Client{path, c.(*net.UnixConn), r, json.NewDecoder(r)}, nil
}

// Ask sends a request and returns the answer. It waits up to five seconds, or a third of a second if the process is stopped. After
// an error the client cannot be used any more.
//
// Errors: ErrGone if the process ends meanwhile; errors of the connection, including os.ErrDeadlineExceeded; and errors that the
// process returns, such as another Version.
func (c *Client) Ask(q Request) (*Reply, error) {
	r, err := c.exchange(inspect.Request{Peer: q.Peer, Flight: q.Flight})
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return nil, fmt.Errorf("ndinspect: ask %s: %w", c.path, ErrGone)
	case err != nil:
		return nil, fmt.Errorf("ndinspect: ask %s: %w", c.path, err)
	}
	return r, nil
}

// Answer is the result of AskAll for one socket: a Reply, or an error of Dial or Ask.
type Answer struct {
	Socket string
	Reply  *Reply
	Err    error
}

// askedAtOnce bounds the number of concurrent replies, because each may be large.
const askedAtOnce = 16

// AskAll asks the processes of several sockets, up to 16 at once, so that a process that does not answer delays few others. Answers
// are in the order of sockets. Processes that were not asked when ctx ended have its error.
func AskAll(ctx context.Context, sockets []string, q Request) []Answer {
	all := make([]Answer, len(sockets))
	var asking sync.WaitGroup
	free := make(chan struct{}, askedAtOnce)
	for i, path := range sockets {
		free <- struct{}{}
		if err := ctx.Err(); err != nil {
			all[i] = Answer{Socket: path, Err: err}
			<-free
			continue
		}
		asking.Go(func() {
			r, err := askOnce(path, q)
			all[i] = Answer{path, r, err}
			<-free
		})
	}
	asking.Wait()
	return all
}

func askOnce(path string, q Request) (*Reply, error) {
	c, err := Dial(path)
	if err != nil {
		return nil, err
	}
	r, err := c.Ask(q)
	_ = c.Close() // no request follows
	return r, err
}

// exchange sends a request and reads the Reply.
func (c *Client) exchange(q inspect.Request) (*Reply, error) {
	q.Version = Version
	if err := c.conn.SetDeadline(time.Now().Add(inspect.ReplyTimeout)); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c.conn).Encode(q); err != nil {
		return nil, err
	}
	if err := c.awaitAnswer(); err != nil {
		return nil, err
	}
	c.bytes.N = inspect.MaxReplyBytes
	var r Reply
	if err := c.in.Decode(&r); err != nil {
		return nil, err
	}
	switch {
	case r.Error != "":
		return nil, errors.New(r.Error)
	case r.Version != Version:
		return nil, fmt.Errorf("the process answers in version %d of the inspection protocol, not %d: use programs of one release", r.Version, Version)
	}
	return &r, nil
}

// awaitAnswer waits for the beginning of a reply. It fails if the process is stopped or frozen, and so cannot answer. The rest of the
// reply has what is left of ReplyTimeout.
func (c *Client) awaitAnswer() error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(inspect.ReplyTimeout)
	for wait := inspect.StoppedAfter; ; wait = time.Until(deadline) {
		if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		err := raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return !errors.Is(err, syscall.EAGAIN)
		})
		if err == nil {
			return c.conn.SetReadDeadline(deadline)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline) {
			return err
		}
		if why := inspect.Stopped(c.conn); why != "" {
			return fmt.Errorf("the process refused the request: %s", why)
		}
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
