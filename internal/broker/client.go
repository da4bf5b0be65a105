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

// Lease is what a broker granted. The caller owns its descriptors. Code that takes one sets the field to -1; Close closes the rest.
type Lease struct {
	Grant   Grant
	Path    string // path of the broker's socket
	Memory  int    // descriptor of the memory, or of a ring
	Sockets []int  // descriptors of the sockets, or of the page of a ring
	conn    *net.UnixConn
}

// Dial requests an adapter from the broker at path, and waits up to 20 s. The error names the broker and its answer.
func Dial(path string, r Request) (*Lease, error) {
	return dial(path, r, replyTimeout, func(*net.UnixConn) error { return nil })
}

// dial is Dial with another time-out. check examines the peer process before anything is sent.
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
	// A broker that refuses at once may have closed its end already. Its answer is more useful than EPIPE.
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

// descriptors extracts the passed descriptors from a control message. Descriptors returned together with an error must be closed,
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

// Gone waits until the connection ends. It returns true if the broker ended it, and false after Close.
func (l *Lease) Gone() bool {
	_, err := l.conn.Read(make([]byte, 1))
	return !errors.Is(err, net.ErrClosed)
}

// Close closes all descriptors that were not taken. The broker then detaches the program. Further calls have no effect.
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
