package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clockEvery is how many iterations of a throughput loop share one look at the clock.
const clockEvery = 16

// runTCP runs the job's specs over kernel TCP, one connection each.
func (j Job) runTCP(ctx context.Context, c Coordinator, sink Sink) error {
	var lc net.ListenConfig
	var listener net.Listener
	if j.Role == Responder {
		l, err := lc.Listen(ctx, "tcp", j.Local.Addr.String())
		if err != nil {
			return fmt.Errorf("%s: %w", j.Kind, err)
		}
		defer l.Close()
		listener = l
	}
	for _, s := range j.Specs {
		s = s.WithDefaults()
		if err := c.Meet(ctx, j.Kind+" "+s.String()); err != nil {
			return err
		}
		if j.Role == Requester {
			sink.Started(s)
		}
		b, err := j.tcpSpec(ctx, s, listener)
		if err != nil {
			return fmt.Errorf("%s %s: %w", j.Kind, s, err)
		}
		if b != nil {
			sink.Baseline(*b)
		}
	}
	return nil
}

func (j Job) tcpSpec(ctx context.Context, s Spec, listener net.Listener) (*Baseline, error) {
	conn, err := j.tcpConnect(ctx, listener)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Every read and write below is bounded by this deadline, and an interrupt ends them by closing.
	if err := conn.SetDeadline(time.Now().Add(s.budget())); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	b := &Baseline{Kind: j.Kind, Test: s.Test, Size: s.Size, MTU: s.MTU, Variant: j.variantOf(s, "")}
	switch {
	case !s.Test.IsLatency() && j.Role == Requester:
		return nil, j.tcpSource(conn, s)
	case !s.Test.IsLatency():
		err = j.tcpSink(conn, s, b)
	case j.Role == Responder:
		return nil, j.tcpEcho(conn, s)
	default:
		err = j.tcpPing(conn, s, b)
	}
	b.setRate()
	return b, err
}

func (j Job) tcpConnect(ctx context.Context, listener net.Listener) (*net.TCPConn, error) {
	var conn net.Conn
	var err error
	if j.Role == Requester {
		d := net.Dialer{Timeout: connectTimeout}
		conn, err = d.DialContext(ctx, "tcp", j.Peer.Addr.String())
	} else {
		stop := context.AfterFunc(ctx, func() { listener.Close() })
		defer stop()
		if t, ok := listener.(*net.TCPListener); ok {
			if err := t.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
				return nil, err
			}
		}
		conn, err = listener.Accept()
	}
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("connection is a %T, not TCP", conn)
	}
	return tcp, nil
}

// tcpSource writes messages until the reader has measured, and tells it by closing its half. The reader knows best how long that takes:
// on a busy machine it may begin late.
func (j Job) tcpSource(conn *net.TCPConn, s Spec) error {
	buf := make([]byte, max(bwWorkingSet, s.Size))
	FillPattern(buf, 1)
	var enough atomic.Bool
	said := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(conn, make([]byte, 1))
		enough.Store(true)
		said <- err
	}()
	err := j.withExchanger(conn, s, func(ex exchanger) error {
		for off, n := 0, 0; n%clockEvery != 0 || !enough.Load(); n++ {
			if off+s.Size > len(buf) {
				off = 0
			}
			if err := ex.send(buf[off : off+s.Size]); err != nil {
				return err
			}
			off += s.Size
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(<-said, conn.CloseWrite())
}

// tcpSink counts what arrives during the measurement, and then says that it has enough.
func (j Job) tcpSink(conn *net.TCPConn, s Spec, b *Baseline) error {
	buf := make([]byte, max(bwWorkingSet, s.Size))
	chunk := min(max(s.Size, 64<<10), 1<<20)
	begin := time.Now().Add(s.warmUp())
	var started time.Time
	err := j.withExchanger(conn, s, func(ex exchanger) error {
		for off := 0; ; off += chunk {
			if off+chunk > len(buf) {
				off = 0
			}
			n, err := ex.some(buf[off : off+chunk])
			now := time.Now()
			switch {
			case started.IsZero() && now.After(begin):
				started, b.Bytes = now, 0
			case !started.IsZero() && b.Seconds == 0:
				b.Bytes += uint64(n)
				if d := now.Sub(started); d >= s.Duration && b.Bytes >= uint64(s.Size) {
					b.Seconds = d.Seconds()
					if _, err := conn.Write([]byte{1}); err != nil {
						return err
					}
				}
			}
			if err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, io.EOF) {
		return err
	}
	if b.Seconds == 0 {
		return fmt.Errorf("the sender stopped before %v were over", s.Duration)
	}
	b.Ops = b.Bytes / uint64(s.Size)
	return nil
}

// tcpPing sends a message, waits for its echo, and records the round trips.
func (j Job) tcpPing(conn *net.TCPConn, s Spec, b *Baseline) error {
	exchange := func(ex exchanger) error {
		return ping(s, b, func(msg []byte) error {
			if err := ex.send(msg); err != nil {
				return err
			}
			return ex.recv(msg)
		})
	}
	return j.withExchanger(conn, s, exchange)
}

// ping calls roundTrip until the spec's time is over and fills b with half of what it took.
func ping(s Spec, b *Baseline, roundTrip func(msg []byte) error) error {
	msg := make([]byte, s.Size)
	hist := NewHistogram()
	last := time.Now()
	begin, end := last.Add(s.warmUp()), last.Add(s.warmUp()+s.Duration)
	var started time.Time
	for {
		if err := roundTrip(msg); err != nil {
			return err
		}
		now := time.Now()
		if started.IsZero() {
			if now.After(begin) {
				started = now
			}
		} else {
			hist.Record(now.Sub(last))
		}
		last = now
		if now.After(end) && hist.Count() > 0 {
			break
		}
	}
	b.Ops = hist.Count()
	b.Bytes = b.Ops * uint64(s.Size)
	b.Seconds = last.Sub(started).Seconds()
	b.LatIs, b.LatUS = HalfRoundTrip, hist.Summary(2)
	return nil
}

// tcpEcho answers until the other side closes.
func (j Job) tcpEcho(conn *net.TCPConn, s Spec) error {
	msg := make([]byte, s.Size)
	err := j.withExchanger(conn, s, func(ex exchanger) error {
		for {
			if err := ex.recv(msg); err != nil {
				return err
			}
			if err := ex.send(msg); err != nil {
				return err
			}
		}
	})
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// exchanger moves whole messages over one connection.
type exchanger interface {
	send(msg []byte) error
	recv(msg []byte) error
	some(buf []byte) (int, error) // reads what there is, one byte at least
}

// withExchanger runs fn over the connection in the way of the job's kind.
func (j Job) withExchanger(conn *net.TCPConn, s Spec, fn func(exchanger) error) error {
	if j.Kind == KindTCP {
		return fn(blockingExchanger{conn})
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	hold := raw.Read
	if !s.Test.IsLatency() && j.Role == Requester {
		hold = raw.Write
	}
	return spinOn(hold, time.Now().Add(s.budget()), fn)
}

// blockingExchanger is package net as everybody uses it: the goroutine parks, the poller wakes it.
type blockingExchanger struct{ conn *net.TCPConn }

func (e blockingExchanger) send(msg []byte) error {
	_, err := e.conn.Write(msg)
	return err
}

func (e blockingExchanger) recv(msg []byte) error {
	_, err := io.ReadFull(e.conn, msg)
	return err
}

func (e blockingExchanger) some(buf []byte) (int, error) { return e.conn.Read(buf) }

// spinExchanger reads the non-blocking descriptor in a loop, so neither the scheduler nor the poller takes part.
type spinExchanger struct {
	fd       int
	deadline time.Time
}

// spinOn runs fn inside one call of RawConn, which keeps the descriptor open meanwhile. The other direction stays free for others: a sender
// hears in a goroutine of its own that the receiver has enough.
func spinOn(hold func(func(uintptr) bool) error, deadline time.Time, fn func(exchanger) error) error {
	var inner error
	err := hold(func(fd uintptr) bool {
		inner = fn(&spinExchanger{fd: int(fd), deadline: deadline})
		return true
	})
	return errors.Join(inner, err)
}

func (e *spinExchanger) send(msg []byte) error { return e.all(msg, unix.Write) }

func (e *spinExchanger) recv(msg []byte) error { return e.all(msg, unix.Read) }

func (e *spinExchanger) some(buf []byte) (int, error) { return e.once(buf, unix.Read) }

// all repeats call until all of msg has moved.
func (e *spinExchanger) all(msg []byte, call func(int, []byte) (int, error)) error {
	for len(msg) > 0 {
		n, err := e.once(msg, call)
		if err != nil {
			return err
		}
		msg = msg[n:]
	}
	return nil
}

// once repeats call until it has moved something. It looks at the clock rarely: a turn costs a microsecond.
func (e *spinExchanger) once(msg []byte, call func(int, []byte) (int, error)) (int, error) {
	for turns := 0; ; turns++ {
		n, err := call(e.fd, msg)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			if turns&0xffff == 0xffff && time.Now().After(e.deadline) {
				return 0, fmt.Errorf("the peer moved nothing until the deadline: %w", syscall.ETIMEDOUT)
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
