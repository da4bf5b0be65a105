package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// clockEvery is the number of iterations of a throughput loop between two clock reads.
const clockEvery = 16

// runTCP runs the job's specs over kernel TCP, with one connection each.
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
	tcp, err := j.tcpConnect(ctx, listener)
	if err != nil {
		return nil, err
	}
	defer tcp.Close()
	// This deadline bounds every read and write below. An interrupt ends them by closing the connection, including blocking system
	// calls.
	if err := tcp.SetDeadline(time.Now().Add(s.budget())); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _, _, _ = tcp.CloseRead(), tcp.CloseWrite(), tcp.Close() })()
	conn, err := j.tcpStream(ctx, tcp)
	if err != nil {
		return nil, err
	}

	b := &Baseline{Kind: j.Kind, Test: s.Test, Size: s.Size, MTU: s.MTU, Variant: j.variantOf(s, "")}
	part := map[bool]map[Role]func(tcpStream, Spec, *Baseline) (uint64, error){
		true: {Requester: j.tcpPing, Responder: j.tcpEcho}, false: {Requester: j.tcpSource, Responder: j.tcpSink},
	}[s.Test.IsLatency()][j.Role]
	cpu := CPUTime()
	ops, err := part(conn, s, b)
	if err != nil {
		return nil, err
	}
	own := tcpSide{Ops: b.Ops, Bytes: b.Bytes, Seconds: b.Seconds, CPUUS: (CPUTime() - cpu).Seconds() * 1e6 / float64(max(ops, 1))}
	if j.Role == Responder {
		return nil, json.NewEncoder(conn).Encode(own)
	}
	var other tcpSide
	if err := json.NewDecoder(conn).Decode(&other); err != nil {
		return nil, fmt.Errorf("receive the result of the peer process: %w", err)
	}
	if !s.Test.IsLatency() {
		b.Ops, b.Bytes, b.Seconds = other.Ops, other.Bytes, other.Seconds
	}
	b.CPUUS = own.CPUUS + other.CPUUS
	b.setRate()
	return b, nil
}

// tcpSide is the responder's report at the end. Processor time is per operation, including the warm-up, because each side only
// knows its own number of operations.
type tcpSide struct {
	Ops     uint64  `json:"ops"`
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`
	CPUUS   float64 `json:"cpu_us"`
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

// tcpStream is the byte stream of a TCP connection: the connection itself, or TLS over it.
type tcpStream struct {
	halfCloser
	tcp *net.TCPConn
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// tcpStream returns the stream of the job's kind over a connection.
func (j Job) tcpStream(ctx context.Context, tcp *net.TCPConn) (tcpStream, error) {
	if j.Kind != KindTCPTLS {
		return tcpStream{tcp, tcp}, nil
	}
	own, err := j.TLS.TLS()
	if err != nil {
		return tcpStream{}, err
	}
	secure := tls.Client(tcp, own.Dial)
	if j.Role == Responder {
		secure = tls.Server(tcp, own.Serve)
	}
	return tcpStream{secure, tcp}, secure.HandshakeContext(ctx)
}

// tcpSource writes messages until the reader has finished its measurement and shuts down its direction. The reader decides, because
// it may begin late on a busy machine. It returns the number of messages.
func (j Job) tcpSource(conn tcpStream, s Spec, _ *Baseline) (ops uint64, err error) {
	buf := make([]byte, max(bwWorkingSet, s.Size))
	FillPattern(buf, 1)
	var enough atomic.Bool
	said := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(conn, make([]byte, 1))
		enough.Store(true)
		said <- err
	}()
	err = j.withExchanger(conn, s, func(ex exchanger) error {
		for off := 0; ops%clockEvery != 0 || !enough.Load(); ops++ {
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
		return ops, err
	}
	return ops, errors.Join(<-said, conn.CloseWrite())
}

// tcpSink counts received messages during the measurement, and then reports that it has finished.
func (j Job) tcpSink(conn tcpStream, s Spec, b *Baseline) (ops uint64, err error) {
	buf := make([]byte, max(bwWorkingSet, s.Size))
	chunk := min(max(s.Size, 64<<10), 1<<20)
	begin := time.Now().Add(s.warmUp())
	var started time.Time
	all := uint64(0)
	err = j.withExchanger(conn, s, func(ex exchanger) error {
		for off := 0; ; off += chunk {
			if off+chunk > len(buf) {
				off = 0
			}
			n, err := ex.some(buf[off : off+chunk])
			now := time.Now()
			all += uint64(n)
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
		return 0, err
	}
	if b.Seconds == 0 {
		return 0, fmt.Errorf("the sender stopped before %v were over", s.Duration)
	}
	b.Ops = b.Bytes / uint64(s.Size)
	return all / uint64(s.Size), nil
}

// tcpPing sends a message, waits for its echo, and records the round trip, repeatedly.
func (j Job) tcpPing(conn tcpStream, s Spec, b *Baseline) (ops uint64, err error) {
	exchange := func(ex exchanger) error {
		return ping(s, b, func(msg []byte) error {
			ops++
			if err := ex.send(msg); err != nil {
				return err
			}
			return ex.recv(msg)
		})
	}
	if err := j.withExchanger(conn, s, exchange); err != nil {
		return ops, err
	}
	return ops, conn.CloseWrite()
}

// ping calls roundTrip until the spec's time is over, and records half of each duration in b.
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

// tcpEcho answers until the peer closes.
func (j Job) tcpEcho(conn tcpStream, s Spec, _ *Baseline) (ops uint64, err error) {
	msg := make([]byte, s.Size)
	err = j.withExchanger(conn, s, func(ex exchanger) error {
		for {
			if err := ex.recv(msg); err != nil {
				return err
			}
			if err := ex.send(msg); err != nil {
				return err
			}
			ops++
		}
	})
	if errors.Is(err, io.EOF) {
		return ops, nil
	}
	return ops, err
}
