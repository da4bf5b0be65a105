package ndnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/nd"
)

// onLoopback are adapters that only one test uses. They close at the end of the test: no connection is left then.
func onLoopback(t *testing.T) Adapters {
	t.Helper()
	a := Adapters{UDPPort: netlabtest.FreePort(t), Datapath: nd.DatapathUDP}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		testhelp.Eventually(t, "the end of the last connection", func() bool {
			must(t, Wait(ctx))
			return a.open() == 0
		})
	})
	return a
}

// open returns how many adapters with the UDP port are open.
func (a *Adapters) open() (n int) {
	adapters.mu.Lock()
	defer adapters.mu.Unlock()
	for key, p := range adapters.open {
		if key.udpPort == a.UDPPort && p.now.Load() != nil {
			n++
		}
	}
	return n
}

// serveEcho echoes on every connection of l.
func serveEcho(t *testing.T, l net.Listener) {
	t.Helper()
	t.Cleanup(func() { must(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c) // ends with the connection
				_ = c.Close()
			}()
		}
	}()
}

func askEcho(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	_, err := c.Write([]byte("hello"))
	must(t, err)
	p := make([]byte, 5)
	_, err = io.ReadFull(c, p)
	must(t, err)
	if string(p) != "hello" {
		t.Errorf("%q came back", p)
	}
	must(t, c.Close())
}

// Names are resolved. Users of the same adapter share it, and it closes by itself after the last user.
func TestSharedAdapter(t *testing.T) {
	a := onLoopback(t)
	t.Cleanup(func() { testhelp.Eventually(t, "the adapter to be closed", func() bool { return a.open() == 0 }) })
	l, err := (&ListenConfig{Adapters: a}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	serveEcho(t, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	d := &Dialer{Adapters: a, Timeout: patience, KeepAliveConfig: net.KeepAliveConfig{Enable: true}}
	for _, address := range []string{l.Addr().String(), "localhost:" + port, ":" + port} {
		c, err := d.Dial("tcp4", address)
		must(t, err)
		if n := c.(*Conn).network; n != l.(*Listener).network {
			t.Error("the adapter was opened twice")
		}
		askEcho(t, c)
	}
	if _, err := d.Dial("tcp6", l.Addr().String()); err == nil {
		t.Error("an IPv4 address was dialed for IPv6")
	}
	var op *net.OpError
	if _, err := d.Dial("tcp", "no-such-name.invalid:80"); !errors.As(err, &op) || !errors.As(err, new(*net.DNSError)) {
		t.Errorf("a name that is not: %v", err)
	}
	if _, err := d.Dial("tcp", "127.0.0.1:9"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no listener: %v", err)
	}
}

// A listener for ND and TCP accepts clients of both. A client that prefers ND uses it, and uses TCP if the server does not answer
// over ND, in bounded time.
func TestBothWays(t *testing.T) {
	a := onLoopback(t)
	both, err := (&ListenConfig{Adapters: a, TCP: true}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	serveEcho(t, both)
	d := &Dialer{Adapters: a, TCP: &net.Dialer{}, TCPAfter: patience}
	c, err := d.Dial("tcp", both.Addr().String())
	must(t, err)
	if _, nd := c.(*Conn); !nd {
		t.Errorf("connected by %T, want ND", c)
	}
	askEcho(t, c)
	c, err = net.Dial("tcp", both.Addr().String())
	must(t, err)
	askEcho(t, c)

	only, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serveEcho(t, only)
	c, err = d.Dial("tcp", only.Addr().String()) // ND is refused at once
	must(t, err)
	if _, tcp := c.(*net.TCPConn); !tcp {
		t.Errorf("connected by %T, want TCP", c)
	}
	askEcho(t, c)
	if _, err := d.Dial("tcp", "127.0.0.1:9"); !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, nd.ErrConnectionRefused) {
		t.Errorf("neither server exists: %v", err)
	}
	d.UDPPort, d.TCPAfter = netlabtest.FreePort(t), time.Millisecond // the server may be silent here
	c, err = d.Dial("tcp", only.Addr().String())
	must(t, err)
	askEcho(t, c)
}

// Wait is for programs without a Network: it returns when data written before Close have arrived, and not earlier.
func TestWaitForSharedAdapters(t *testing.T) {
	a := onLoopback(t)
	l, err := (&ListenConfig{Adapters: a}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	client, err := (&Dialer{Adapters: a, Timeout: patience}).Dial("tcp", l.Addr().String())
	must(t, err)
	server, err := l.Accept()
	must(t, err)
	must(t, l.Close())
	want := make([]byte, 16<<10)
	_, err = client.Write(want)
	must(t, err)
	client.(*Conn).network.bounds.stall = time.Millisecond
	must(t, client.Close())
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the data were not read yet: %v", err)
	}
	got, err := io.ReadAll(server)
	if must(t, err); len(got) != len(want) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
	must(t, server.Close())
	enough, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, Wait(enough))
}

// Wait does not wait for adapters that are being opened, because no data were written over them yet.
func TestWaitBesideAnAdapterThatOpens(t *testing.T) {
	key, p := adapterKey{udpPort: netlabtest.FreePort(t)}, &place{}
	adapters.mu.Lock()
	adapters.open[key] = p
	adapters.mu.Unlock()
	p.mu.Lock()
	defer func() {
		p.mu.Unlock()
		adapters.mu.Lock()
		delete(adapters.open, key)
		adapters.mu.Unlock()
	}()
	ended := make(chan error, 1)
	go func() { ended <- Wait(t.Context()) }()
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(patience):
		t.Error("Wait waits for an adapter that is being opened")
	}
}

// Connections use the keep-alive settings of their dialer or listener, for one address or all, unless the transport sends its own
// sooner.
func TestKeepAliveOfDialersAndListeners(t *testing.T) {
	a := onLoopback(t)
	const soon = 5 * time.Second
	for name, c := range map[string]struct {
		idle time.Duration
		cfg  net.KeepAliveConfig
		want time.Duration // zero: only those of the transport
	}{
		"default":     {},
		"off":         {idle: -1},
		"idle":        {idle: soon, want: soon},
		"config":      {idle: -1, cfg: net.KeepAliveConfig{Enable: true, Idle: soon}, want: soon},
		"rare":        {cfg: net.KeepAliveConfig{Enable: true, Idle: time.Hour}},
		"impatient":   {cfg: net.KeepAliveConfig{Enable: true, Interval: time.Second}, want: defaultKeepAlive},
		"config, off": {idle: soon, cfg: net.KeepAliveConfig{Enable: true, Idle: -1}},
	} {
		for _, address := range []string{"127.0.0.1:0", ":0"} {
			l, err := (&ListenConfig{Adapters: a, KeepAlive: c.idle, KeepAliveConfig: c.cfg}).Listen(t.Context(), "tcp4", address)
			must(t, err)
			_, port, err := net.SplitHostPort(l.Addr().String())
			must(t, err)
			client, err := (&Dialer{Adapters: a, Timeout: patience, KeepAlive: c.idle, KeepAliveConfig: c.cfg}).Dial("tcp", net.JoinHostPort("127.0.0.1", port))
			must(t, err)
			must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(patience)))
			server, err := l.Accept()
			must(t, err)
			for _, end := range []net.Conn{client, server} {
				if keep := end.(*Conn).keep; (keep != nil) != (c.want != 0) || keep != nil && keep.idle != c.want {
					t.Errorf("%s on %s: %+v, want %v", name, address, keep, c.want)
				}
				must(t, end.Close())
			}
			must(t, l.Close())
		}
	}
}

// A listener without a host, or with an unspecified one, listens on every address where an adapter can be opened.
func TestListenEverywhere(t *testing.T) {
	a := onLoopback(t)
	for _, address := range []string{":0", "0.0.0.0:0", "[::ffff:0.0.0.0]:0"} {
		l, err := (&ListenConfig{Adapters: a, TCP: true}).Listen(t.Context(), "tcp4", address)
		must(t, err)
		serveEcho(t, l)
		_, port, err := net.SplitHostPort(l.Addr().String())
		must(t, err)
		c, err := (&Dialer{Adapters: a}).Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		must(t, err)
		askEcho(t, c)
	}
}

// Of several addresses, the next one is tried if one is slow or fails. The first connection wins, and later ones are closed.
func TestRace(t *testing.T) {
	late := make(chan bool)
	lateClosed := make(chan bool, 1)
	dial := func(_ context.Context, what string) (net.Conn, error) {
		switch what {
		case "fails":
			return nil, syscall.ECONNREFUSED
		case "late":
			<-late
			return &closeSpy{closed: lateClosed}, nil
		}
		return &closeSpy{}, nil
	}
	for _, targets := range [][]string{{"works"}, {"fails", "works"}, {"fails", "fails", "works"}} {
		if _, err := race(t.Context(), patience, targets, dial); len(err) > 0 {
			t.Errorf("%v: %v", targets, err)
		}
	}
	if _, err := race(t.Context(), time.Millisecond, []string{"late", "works"}, dial); len(err) > 0 {
		t.Error(err)
	}
	close(late)
	select {
	case <-lateClosed:
	case <-time.After(patience):
		t.Error("the connection that came too late was not closed")
	}
	if _, err := race(t.Context(), time.Millisecond, []string{"fails", "fails"}, dial); len(err) != 2 || !errors.Is(err[1], syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

type closeSpy struct {
	net.Conn
	closed chan bool
}

func (c *closeSpy) Close() error {
	c.closed <- true
	return nil
}

// Addresses of both families alternate, IPv6 first. Services may have names, and addresses may have zones.
func TestResolve(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80":         "192.0.2.1:80",
		"192.0.2.1:http":       "192.0.2.1:80",
		"[fe80::1%veth0]:7":    "[fe80::1%veth0]:7",
		"[::ffff:192.0.2.1]:7": "192.0.2.1:7",
		":7":                   "127.0.0.1:7",
		"0.0.0.0:7":            "127.0.0.1:7",
		"[::ffff:0.0.0.0]:7":   "127.0.0.1:7",
		"[::]:7":               "[::1]:7",
	} {
		all, err := resolve(t.Context(), nil, "tcp", address)
		if err != nil || len(all) != 1 || all[0] != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, %v", address, all, err)
		}
	}
	for _, bad := range []string{"", "192.0.2.1", "192.0.2.1:no-such-service", "192.0.2.1:70000"} {
		if _, err := resolve(t.Context(), nil, "tcp", bad); err == nil {
			t.Errorf("%q was resolved", bad)
		}
	}
	if _, err := resolve(t.Context(), nil, "tcp6", "192.0.2.1:80"); err == nil {
		t.Error("an IPv4 address was found for IPv6")
	}
}
