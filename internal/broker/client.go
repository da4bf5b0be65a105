package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/user"
)

// Lease is what a broker gave. Its descriptors are the caller's: whoever uses one sets it to -1 first, and Close closes the rest.
type Lease struct {
	Grant   Grant
	Path    string // of the broker's socket
	Memory  int    // or a ring
	Sockets []int  // or the page beside a ring
	conn    *net.UnixConn
}

// Dial asks the broker at path, and waits up to 20 s. Any error says which broker, and what it said.
func Dial(path string, r Request) (*Lease, error) {
	return dial(path, r, replyTimeout, func(*net.UnixConn) error { return nil })
}

// dial waits up to patience. check examines the peer process before anything is sent.
func dial(path string, r Request, patience time.Duration, check func(*net.UnixConn) error) (*Lease, error) {
	if err := user.CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("connect to the broker at %s: %w: is ndbroker running there, and may this user reach it?", path, err)
	}
	l := &Lease{Path: path, Memory: -1, conn: conn}
	r.Version = version
	err = check(conn)
	if err == nil {
		err = l.ask(&r, patience)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask the broker at %s for an adapter: %w", path, err), l.Close())
	}
	return l, nil
}

func (l *Lease) ask(r *Request, patience time.Duration) error {
	message, err := encode(r)
	if err != nil {
		return err
	}
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var passed []byte
	if r.ring() {
		passed = unix.UnixRights(r.Socket)
	}
	// A broker that refuses at once has closed its end already: its answer says more than a broken pipe.
	_, _, failed := l.conn.WriteMsgUnix(message, passed, nil)
	buf, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*(1+MaxQueues)))
	n, rights, flags, _, err := l.conn.ReadMsgUnix(buf, control)
	if err != nil {
		return errors.Join(failed, fmt.Errorf("no answer (it was stopped, or has too many clients): %w", err))
	}
	all, err := descriptors(control[:rights])
	if len(all) > 0 {
		l.Memory, l.Sockets = all[0], all[1:]
	}
	if err != nil {
		return err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return errors.New("the answer is too long, or its descriptors exceed what this process may have (ulimit -n)")
	}
	var answer reply
	if err := json.Unmarshal(buf[:n], &answer); err != nil {
		return fmt.Errorf("understand the answer: %w", err)
	}
	if err := answer.check(len(all)); err != nil {
		return err
	}
	l.Grant = *answer.Grant
	return l.conn.SetDeadline(time.Time{})
}

// descriptors takes the passed descriptors out of a control message. Descriptors returned together with an error must be closed
// too.
func descriptors(control []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// Gone waits until the connection ends. It is true when the broker ended it, false after Close.
func (l *Lease) Gone() bool {
	_, err := l.conn.Read(make([]byte, 1))
	return !errors.Is(err, net.ErrClosed)
}

// Close gives everything back that was not taken. The broker then detaches the program. Closing twice is harmless.
func (l *Lease) Close() error {
	var errs []error
	for _, fd := range append([]int{l.Memory}, l.Sockets...) {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	l.Memory, l.Sockets = -1, nil
	if err := l.conn.Close(); !errors.Is(err, net.ErrClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
