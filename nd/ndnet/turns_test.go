package ndnet

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Interactions of concurrent calls on one connection, and of calls with the program's own readers and writers.

// until waits for a condition on fields that mu guards.
func until(t *testing.T, c *Conn, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		c.mu.Lock()
		yes := is()
		c.mu.Unlock()
		if yes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// ends waits for a call.
func ends[T any](t *testing.T, what string, over <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-over:
	case <-time.After(patience):
		t.Fatalf("%s does not end", what)
	}
	return v
}

// heldWriter blocks in Write until it is released.
type heldWriter struct{ entered, release chan struct{} }

func newHeldWriter() *heldWriter { return &heldWriter{make(chan struct{}), make(chan struct{})} }

func (w *heldWriter) Write(p []byte) (int, error) {
	close(w.entered)
	<-w.release
	return len(p), nil
}

// Bytes that WriteTo has passed to its writer count as unread until the writer returns, also if the connection is closed meanwhile.
// Otherwise the peer would overwrite them.
func TestWriteToKeepsItsBytes(t *testing.T) {
	for name, end := range map[string]func(*Conn) error{"Close": (*Conn).Close, "CloseRead": (*Conn).CloseRead} {
		t.Run(name, func(t *testing.T) {
			client, server := newPipe(t, Config{})
			_, err := client.Write(make([]byte, 100))
			must(t, err)
			w, over := newHeldWriter(), make(chan error, 1)
			go func() {
				_, err := server.WriteTo(w)
				over <- err
			}()
			<-w.entered
			server.mu.Lock()
			before := server.in.read
			server.mu.Unlock()
			must(t, end(server))
			server.mu.Lock()
			after := server.in.read
			server.mu.Unlock()
			close(w.release)
			ends(t, "WriteTo", over)
			if after != before {
				t.Errorf("%d bytes counted as read while a writer had them", after-before)
			}
			until(t, server, "they count as read", func() bool { return server.in.unread() == 0 })
		})
	}
}

// lastRead is a source that runs a function in Read, and returns its bytes with io.EOF.
type lastRead struct {
	do func()
	p  []byte
}

func (r *lastRead) Read(p []byte) (int, error) {
	r.do()
	return copy(p, r.p), io.EOF
}

// ReadFrom returns an error if the last bytes of its source cannot be sent.
func TestReadFromSaysWhatItLost(t *testing.T) {
	for name, end := range map[string]func(c *Conn) error{
		"closed":            (*Conn).Close,
		"past its deadline": func(c *Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := newPipe(t, Config{})
			n, err := io.Copy(client, &lastRead{func() { must(t, end(client)) }, []byte("twelve bytes")})
			if n != 0 || err == nil {
				t.Errorf("%d bytes taken, %v", n, err)
			}
		})
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error)  { panic("reader") }
func (panics) Write([]byte) (int, error) { panic("writer") }

// The caller can recover from a panic of a source or a sink, and the connection still works.
func TestPanicsOfOthers(t *testing.T) {
	client, server := newPipe(t, Config{})
	caught := func(f func()) (what any) {
		defer func() { what = recover() }()
		f()
		return nil
	}
	if what := caught(func() { _, _ = io.Copy(client, struct{ io.Reader }{panics{}}) }); what != "reader" {
		t.Errorf("ReadFrom: %v", what)
	}
	_, err := client.Write([]byte("x"))
	must(t, err)
	if what := caught(func() { _, _ = server.WriteTo(panics{}) }); what != "writer" {
		t.Errorf("WriteTo: %v", what)
	}
	if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after both: %d, %v", n, err)
	}
}

// A call that waits behind a blocked Write or WriteTo is ended by a deadline and by Close. CloseWrite does not wait.
func TestCallsBehindOthers(t *testing.T) {
	client, server := newPipe(t, Config{})
	client.mu.Lock()
	client.writing.taken = true // as if a Write waited for the peer
	client.mu.Unlock()
	wrote := make(chan error, 1)
	write := func() {
		_, err := client.Write([]byte("x"))
		wrote <- err
	}
	must(t, client.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	go write()
	if err := ends(t, "a Write with a deadline", wrote); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: %v", err)
	}
	client.mu.Lock()
	client.writing.give()
	client.mu.Unlock()
	must(t, client.CloseWrite())
	_, err := server.Write([]byte("x"))
	must(t, err)
	held, read := newHeldWriter(), make(chan error, 1)
	defer close(held.release)
	go func() { _, _ = client.WriteTo(held) }()
	<-held.entered
	go func() {
		_, err := client.Read(make([]byte, 1))
		read <- err
	}()
	must(t, client.Close())
	if err := ends(t, "a Read", read); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
}

// CloseWrite does not wait, and ends a Write that waits for a peer that does not read.
func TestCloseWriteEndsWrites(t *testing.T) {
	client, _ := newPipe(t, Config{MaxBuffer: minMaxBuffer})
	wrote := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, 1<<20))
		wrote <- err
	}()
	until(t, client, "the Write waits", func() bool { return client.waiting.inside && client.blocked() })
	must(t, client.CloseWrite())
	if err := ends(t, "the Write", wrote); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}

// CloseWrite waits for nothing, so it tells the peer also after its deadline has passed.
func TestCloseWriteAfterDeadline(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, client.SetDeadline(time.Unix(1, 0)))
	must(t, client.CloseWrite())
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// A repeated CloseWrite succeeds, also if the peer has closed. Programs that copy in both directions call it at the end of each
// copy, and treat an error as a failed copy.
func TestCloseWriteAgain(t *testing.T) {
	client, server := newPipe(t, Config{})
	must(t, client.CloseWrite())
	must(t, client.CloseWrite())
	must(t, client.Close())
	if err := client.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	until(t, server, "it heard of Close", func() bool {
		server.takeResults()
		return server.gone
	})
	must(t, server.CloseWrite())
	if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
}

// No call sleeps on a connection that is known to be lost, because the goroutine that detected the loss found no sleeper to wake.
func TestNobodySleepsOnALostConnection(t *testing.T) {
	client, _ := newPipe(t, Config{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		client.mu.Lock()
		defer client.mu.Unlock()
		client.fail(syscall.ECONNRESET)
		client.await(true)
	}()
	ends(t, "a call", over)
}

// A call that is about to sleep until this side's messages have arrived is woken if another call polls their results.
func TestResultsWakeWhoSleepsForThem(t *testing.T) {
	client, _ := newPipe(t, Config{})
	client.mu.Lock()
	w := &client.waiting
	w.inside, w.all, w.bell = true, true, newBell() // the state that await sets before it calls Notify
	client.mu.Unlock()
	_, err := client.Write([]byte("x"))
	must(t, err)
	until(t, client, "the message is acknowledged", func() bool {
		client.takeResults()
		return client.send.n == 0
	})
	client.mu.Lock()
	defer client.mu.Unlock()
	if w.bell.Err() == nil {
		t.Error("the sleeper is not woken")
	}
	w.inside = false
}

// passing fails once, like accept without free descriptors.
type passing struct {
	net.Listener
	failed bool
}

func (l *passing) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// A listener for TCP and ND reports a temporary error, and continues.
func TestMergedOutlivesPassingErrors(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := newMerged(tcp.Addr(), &passing{Listener: tcp})
	defer m.Close()
	if _, err := m.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("the first Accept: %v", err)
	}
	go func() {
		if c, err := net.Dial("tcp", tcp.Addr().String()); err == nil {
			_ = c.Close()
		}
	}()
	c, err := m.Accept()
	if err != nil {
		t.Fatal(err)
	}
	must(t, c.Close())
}

// The address of a listener on all addresses can be dialed.
func TestDialUnspecified(t *testing.T) {
	a := onLoopback(t)
	l, err := (&ListenConfig{Adapters: a, TCP: true}).Listen(t.Context(), "tcp", ":0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	for _, to := range []string{l.Addr().String(), "0.0.0.0:" + port, ":" + port} {
		c, err := (&Dialer{Adapters: a, Timeout: patience}).Dial("tcp", to)
		if err != nil {
			t.Errorf("%s: %v", to, err)
			continue
		}
		must(t, c.Close())
	}
}

// An accepted connection has its addresses, also if its peer has gone.
func TestAddressesOfShortConnections(t *testing.T) {
	n := networks(t, Config{})
	l, err := n[1].Listen("nd", ":0")
	must(t, err)
	for i := range 200 {
		c, err := n[0].Dial("nd", l.Addr().String())
		must(t, err)
		if i%2 == 0 {
			must(t, c.(*Conn).qp.Close())
		}
		must(t, c.Close())
		s, err := l.Accept()
		must(t, err)
		if !s.RemoteAddr().(*net.TCPAddr).AddrPort().IsValid() || !s.LocalAddr().(*net.TCPAddr).AddrPort().IsValid() {
			t.Fatalf("connection %d is of %v to %v", i, s.LocalAddr(), s.RemoteAddr())
		}
		must(t, s.Close())
	}
	must(t, l.Close())
}

// Without memory for a larger ring, a Write uses its present ring as it empties.
func TestNoMemoryToGrow(t *testing.T) {
	n, other := networks(t, Config{}), networks(t, Config{})
	must(t, other[0].adapter.Close())
	e := pairs(t, n, 1)[0]
	client, server := e[0], e[1]
	_, err := client.Write(make([]byte, 512))
	must(t, err)
	p := &n[0].pool
	p.mu.Lock()
	was := p.adapter
	p.adapter = other[0].adapter // a pool without memory
	for i := range p.free {
		p.free[i] = nil
	}
	p.mu.Unlock()
	wrote := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, 5000))
		wrote <- err
	}()
	until(t, client, "the send ring is full", func() bool { return len(client.send.ring.mem) > 0 && client.send.ring.free() == 0 })
	_, err = io.ReadFull(server, make([]byte, 512+5000))
	must(t, err)
	if err := ends(t, "the Write", wrote); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	p.adapter = was
	p.mu.Unlock()
	must(t, errors.Join(client.Close(), server.Close()))
}

// An idle connection releases its receive ring also while a ReadFrom waits for its source, as in a proxy.
func TestIdleBesideReadFrom(t *testing.T) {
	client, server := newPipe(t, Config{})
	transfer(t, client, server)
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = server.ReadFrom(r) }()
	_, err := w.Write(nil) // returns when ReadFrom has read its bytes
	must(t, err)
	go func() { _, _ = client.Read(make([]byte, 1)) }() // accepts the offer of a smaller ring; ends with the connection
	before := uint64(0)
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		for _, c := range []*Conn{server, client} {
			moved, _ := c.tidy(before)
			if c == server {
				before = moved
			}
		}
		server.mu.Lock()
		size := len(server.in.now)
		server.mu.Unlock()
		if size == minRing {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a ring of %d bytes is not released", size)
		}
	}
}
