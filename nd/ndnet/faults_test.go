package ndnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// goroutinesBack waits until there are no more goroutines than before.
func goroutinesBack(t *testing.T, before int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; <-tick.C {
		if time.Now().After(deadline) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// pairs makes connections between two networks. The client of each comes first.
func pairs(t testing.TB, n [2]*Network, count int) (ends [][2]*Conn) {
	t.Helper()
	l, err := n[1].Listen("nd", ":0")
	must(t, err)
	for range count {
		client, err := n[0].Dial("nd", l.Addr().String())
		must(t, err)
		server, err := l.Accept()
		must(t, err)
		ends = append(ends, [2]*Conn{client.(*Conn), server.(*Conn)})
	}
	must(t, l.Close())
	return ends
}

// The adapter is closed while a thousand readers and writers sleep. All return within a second, and nothing is left of them.
func TestAdapterClosedUnderSleepers(t *testing.T) {
	before := runtime.NumGoroutine()
	n := networks(t, Config{MaxBuffer: minMaxBuffer})
	ends := pairs(t, n, 500)
	var asleep, work sync.WaitGroup
	for i, e := range ends {
		for _, c := range e {
			asleep.Add(1)
			work.Go(func() {
				asleep.Done()
				if i%10 == 0 && c == e[0] {
					if _, err := c.Write(make([]byte, 8*minMaxBuffer)); !errors.Is(err, syscall.ENETDOWN) && !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("write: %v", err)
					}
					return
				}
				p := make([]byte, 1)
				if i%10 == 0 { // the peer writes although this side does not read
					if _, err := c.Read(p); err != nil {
						t.Errorf("first read: %v", err)
					}
					return
				}
				if _, err := c.Read(p); !errors.Is(err, syscall.ENETDOWN) && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("read: %v", err)
				}
			})
		}
	}
	asleep.Wait()
	for i, e := range ends { // all goroutines sleep
		for !e[0].isInside() || i%10 > 0 && !e[1].isInside() || i%10 == 0 && !e[1].hasRead() {
			runtime.Gosched()
		}
	}
	begin := time.Now()
	must(t, n[0].adapter.Close())
	must(t, n[1].adapter.Close())
	work.Wait()
	if took := time.Since(begin); took > 10*time.Second { // on an idle machine it takes less than one second
		t.Errorf("all returned after %v", took)
	} else {
		t.Logf("all returned after %v", took)
	}
	for _, e := range ends {
		must(t, e[0].Close())
		must(t, e[1].Close())
	}
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
	goroutinesBack(t, before+2*len(n)) // the adapters' own goroutines end with the test
}

func (c *Conn) isInside() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting.inside
}

func (c *Conn) hasRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.read > 0
}

// Connections are closed in every order: either side closes, shuts down or falls silent first, with or without bytes in flight.
func TestCloseInEveryOrder(t *testing.T) {
	n := networks(t, Config{})
	steps := map[string]func(*Conn){
		"close":      func(c *Conn) { _ = c.Close() },
		"closeWrite": func(c *Conn) { _ = c.CloseWrite() },
		"closeRead":  func(c *Conn) { _ = c.CloseRead() },
		"write":      func(c *Conn) { _, _ = c.Write(make([]byte, 3000)) },
		"read": func(c *Conn) {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = c.Read(make([]byte, 2000))
		},
	}
	var names []string
	for name := range steps {
		names = append(names, name)
	}
	for _, first := range names {
		for _, second := range names {
			for _, third := range names {
				ends := pairs(t, n, 1)[0]
				steps[first](ends[0])
				steps[second](ends[1])
				steps[third](ends[0])
				steps[first](ends[1])
				for _, c := range ends {
					if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
						t.Errorf("%s %s %s: %v", first, second, third, err)
					}
				}
			}
		}
	}
	done := make(chan bool)
	go func() {
		must(t, n[0].Wait(context.Background()))
		must(t, n[1].Wait(context.Background()))
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("a connection was not released")
	}
	for _, n := range n {
		err := n.pool.trim()
		n.pool.mu.Lock()
		if err != nil || n.pool.used != 0 || n.pool.idle > slabBytes {
			t.Errorf("the pool has %d blocks in use, %d slabs, %d bytes (%v)", n.pool.used, len(n.pool.slabs), n.pool.idle, err)
		}
		n.pool.mu.Unlock()
	}
}

// A deadline in the past ends every pending and every later call at once. After a later deadline is set, calls work again.
func TestDeadlineInThePast(t *testing.T) {
	client, server := newPipe(t, Config{})
	waiting := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1))
		waiting <- err
	}()
	for !client.isInside() {
		runtime.Gosched()
	}
	must(t, client.SetDeadline(time.Unix(1, 0)))
	if err := <-waiting; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the Read that waited: %v", err)
	}
	var timeout net.Error
	if _, err := client.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("write: %v", err)
	}
	must(t, client.SetDeadline(time.Time{}))
	_, err := client.Write([]byte("x"))
	must(t, err)
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// A hundred goroutines write records to one connection and read them back: no record is split or lost.
func TestHundredGoroutines(t *testing.T) {
	client, server := newPipe(t, Config{})
	const writers, records, size = 50, 40, 700
	var work, reading sync.WaitGroup
	for _, c := range []*Conn{client, server} {
		for w := range writers {
			work.Go(func() {
				for range records {
					if n, err := c.Write(bytes.Repeat([]byte{byte(w)}, size)); n != size || err != nil {
						t.Errorf("%d bytes, %v", n, err)
						return
					}
					_ = c.SetReadDeadline(time.Time{})
				}
			})
		}
		reading.Go(func() {
			p := make([]byte, size)
			var got [writers]int
			for range writers * records {
				if _, err := io.ReadFull(c, p); err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(p, bytes.Repeat(p[:1], size)) {
					t.Error("a record was cut in two")
					return
				}
				got[p[0]]++
			}
			for w, n := range got {
				if n != records {
					t.Errorf("%d records of writer %d", n, w)
				}
			}
		})
	}
	work.Wait()
	reading.Wait()
}

// CloseRead discards received data, and the peer learns that its data are not read.
func TestCloseRead(t *testing.T) {
	client, server := newPipe(t, Config{})
	waiting := make(chan error, 1)
	go func() {
		_, err := client.Read(make([]byte, 1))
		waiting <- err
	}()
	for !client.isInside() {
		runtime.Gosched()
	}
	must(t, client.CloseRead())
	if err := <-waiting; err != io.EOF {
		t.Errorf("the Read that waited: %v", err)
	}
	var err error
	for deadline := time.Now().Add(patience); err == nil && time.Now().Before(deadline); {
		_, err = server.Write(make([]byte, 1000))
	}
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the peer's Write: %v", err)
	}
	_, err = client.Write([]byte("still"))
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 5))
	must(t, err)
}

// transfer moves enough bytes for the buffers to grow.
func transfer(t *testing.T, from, to *Conn) {
	t.Helper()
	data := make([]byte, 300<<10)
	got := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(to, make([]byte, len(data)))
		got <- err
	}()
	_, err := from.Write(data)
	must(t, errors.Join(err, <-got))
}

// An idle connection releases its buffers on both sides, and gets new ones with the next traffic.
func TestIdleGivesBack(t *testing.T) {
	client, server := newPipe(t, Config{})
	transfer(t, client, server)
	go func() { _, _ = client.Read(make([]byte, 1)) }() // a sleeping reader, as in most programs; it ends with the connection
	before := uint64(0)
	for _, c := range []*Conn{server, client, server} { // the second side confirms what the first has released
		small := false
		for deadline := time.Now().Add(patience); !small; runtime.Gosched() {
			if before, small = c.tidy(before); time.Now().After(deadline) {
				t.Fatal("buffers are not given back")
			}
		}
		before = 0
	}
	for _, c := range []*Conn{client, server} {
		c.mu.Lock()
		if len(c.in.now) != minRing || c.send.ring.mem != nil || c.inside.now.window != nil {
			t.Errorf("a ring of %d bytes, %d bytes to send from", len(c.in.now), len(c.send.ring.mem))
		}
		c.mu.Unlock()
	}
	transfer(t, client, server)
}

// TestKeepAlive: an idle connection sends keep-alives while they are enabled, and stops when they are disabled.
func TestKeepAlive(t *testing.T) {
	client, _ := newPipe(t, Config{})
	must(t, client.SetKeepAlivePeriod(time.Millisecond))
	said := func() uint {
		client.mu.Lock()
		defer client.mu.Unlock()
		return client.send.number
	}
	for deadline := time.Now().Add(patience); said() < 3; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("no keep-alive was sent")
		}
	}
	must(t, client.SetKeepAlive(false))
	must(t, client.Close())
	if err := client.SetKeepAlive(true); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed connection: %v", err)
	}
}

// liar is a connection on which a test sends arbitrary messages of one side.
func liar(t testing.TB, n [2]*Network) (raw, honest *Conn) {
	e := pairs(t, n, 1)[0]
	return e[0], e[1]
}

// lieSlot is the first header slot for invalid messages. The slots before it are for the messages of Close, and an invalid message
// may still be in flight.
const lieSlot = depth / 2

// say sends a message unchanged.
func (c *Conn) say(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := c.control.mem[headersAt+lieSlot*headerSlot : firstRingAt]
	if len(b) > len(place) {
		return fmt.Errorf("%d bytes, for which a lie has %d", len(b), len(place))
	}
	n := copy(place, b)
	return c.qp.Send(0, []nd.SGE{c.control.sge(place[:n])}, nd.OpSolicit|nd.OpSilentSuccess)
}

// Every invalid message of a peer ends the connection on both sides, with an error that names the violation.
func TestLiesEndTheConnection(t *testing.T) {
	n := networks(t, Config{})
	header := func(m message) []byte { return append(m.appendTo(nil), m.data...) }
	for name, c := range map[string]struct {
		message []byte
		want    error
	}{
		"short":            {[]byte("short"), errMessage},
		"unknown flag":     {header(message{flags: 0x80, receives: depth}), errMessage},
		"read too much":    {header(message{receives: depth, read: 1}), errCredit},
		"written too much": {header(message{receives: depth, written: minRing + 1}), errWritten},
		"fewer receives":   {header(message{receives: 3}), errReceives},
		"many receives":    {header(message{receives: 60000}), errReceives},
		"ring of 3 bytes":  {header(message{receives: depth, flags: flagRing, offer: grant{1, 1, 3}}), errGrant},
		"ring not there":   {header(message{receives: depth, flags: flagSwitched}), errSwitched},
		"data uncounted":   {header(message{receives: depth, data: []byte("xx"), written: 1}), errWritten},
	} {
		raw, honest := liar(t, n)
		must(t, raw.say(c.message))
		must(t, honest.SetDeadline(time.Now().Add(patience)))
		if _, err := honest.Read(make([]byte, 1)); !errors.Is(err, c.want) || !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, raw.SetDeadline(time.Now().Add(patience)))
		if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the liar's end: %v", name, err)
		}
		must(t, errors.Join(raw.Close(), honest.Close()))
	}
	must(t, n[0].Wait(context.Background()))
	must(t, n[1].Wait(context.Background()))
}

// If a peer never reads and never returns credits, a Write waits until its deadline, with bounded memory. Close returns at once.
func TestPeerThatNeverCredits(t *testing.T) {
	n := networks(t, Config{MaxBuffer: minMaxBuffer})
	_, honest := liar(t, n)
	must(t, honest.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	took, err := honest.Write(make([]byte, 1<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || took > 2*minMaxBuffer {
		t.Errorf("%d bytes taken, %v", took, err)
	}
	if size := len(honest.send.ring.mem); size > minMaxBuffer {
		t.Errorf("%d bytes of buffer", size)
	}
	begin := time.Now()
	must(t, honest.Close())
	if took := time.Since(begin); took > time.Second*5 {
		t.Errorf("Close took %v", took)
	}
}

// Whatever messages a peer sends, a Read ends and nothing panics.
func TestAnyMessageOfAPeer(t *testing.T) {
	n := networks(t, Config{MaxBuffer: minMaxBuffer})
	rng := rand.New(rand.NewPCG(59, 60))
	for _, e := range pairs(t, n, 100) {
		m := message{
			flags: uint8(rng.Uint32()) & flagsAll, receives: depth, written: uint32(rng.IntN(200)), data: make([]byte, rng.IntN(100)),
			offer: grant{rng.Uint64() >> 1, rng.Uint32(), minRing << rng.IntN(10)},
		}
		must(t, e[0].say(append(m.appendTo(nil), m.data...)))
		must(t, e[0].Close())
		must(t, e[1].SetDeadline(time.Now().Add(patience)))
		if _, err := io.Copy(io.Discard, e[1]); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read did not end after %+v", m)
		}
		_, _ = e[1].Write(make([]byte, 1000)) // the peer may be gone
		must(t, e[1].Close())
	}
}

// Other networks than TCP and ND are refused, as in package net.
func TestUnknownNetworks(t *testing.T) {
	n := networks(t, Config{})[0]
	for _, name := range []string{"", "udp", "unix", "tcp5", "4"} {
		tries := map[string]func() error{
			"Dial":           func() error { _, err := Dial(name, "127.0.0.1:9"); return err },
			"Dial with TCP":  func() error { _, err := (&Dialer{TCP: &net.Dialer{}}).Dial(name, "127.0.0.1:9"); return err },
			"Listen":         func() error { _, err := Listen(name, "127.0.0.1:0"); return err },
			"Network.Dial":   func() error { _, err := n.Dial(name, "127.0.0.1:9"); return err },
			"Network.Listen": func() error { _, err := n.Listen(name, "127.0.0.1:0"); return err },
		}
		for call, try := range tries {
			if err := try(); !errors.As(err, new(net.UnknownNetworkError)) {
				t.Errorf("%s of network %q: %v", call, name, err)
			}
		}
	}
}

// A Dial or Listen that fails returns the errors of package net.
func TestDialErrors(t *testing.T) {
	n := networks(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	var timeout net.Error
	nobody := n[1].adapter.QueryAddressList()[0].String() + ":9"
	if _, err := n[0].DialContext(ctx, "nd", nobody); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("deadline: %v", err)
	}
	if _, err := n[0].Dial("nd", nobody); !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, nd.ErrConnectionRefused) {
		t.Errorf("no listener: %v", err)
	} else if call := (*os.SyscallError)(nil); !errors.As(err, &call) || call.Err != syscall.ECONNREFUSED {
		t.Errorf("no listener: the *os.SyscallError in %v is %v", err, call)
	}
	l, err := n[1].Listen("nd", ":80")
	must(t, err)
	if _, err := n[1].Listen("nd", ":80"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("port taken: %v", err)
	}
	must(t, l.Close())
}

// A goroutine may take over a reader's place in the queue. If it finishes its work, the reader takes the place back, because
// nothing else would wake the reader.
func TestPlaceIsTakenAgain(t *testing.T) {
	n := networks(t, Config{})
	for _, n := range n {
		n.mu.Lock()
		n.tidying = true // no other goroutine takes the place meanwhile
		n.mu.Unlock()
	}
	const size = 1500 // more than a new connection sends at once
	for _, e := range pairs(t, n, 50) {
		must(t, errors.Join(e[0].SetDeadline(time.Now().Add(patience)), e[1].SetDeadline(time.Now().Add(patience))))
		done := make(chan error, 1)
		go func() {
			p := make([]byte, size)
			_, err := io.ReadFull(e[1], p)
			if err == nil {
				_, err = e[1].Write(p)
			}
			done <- err
		}()
		_, err := e[0].Write(make([]byte, size))
		must(t, err)
		_, err = io.ReadFull(e[0], make([]byte, size))
		must(t, err)
		must(t, <-done)
		must(t, errors.Join(e[0].Close(), e[1].Close()))
	}
}
