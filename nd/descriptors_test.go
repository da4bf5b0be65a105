package nd

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// WithoutDescriptors runs f while this process can open no more descriptors. Other tests wait meanwhile.
func WithoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max})) // no new descriptors; open ones stay open
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	f()
}

// A process without free descriptors cannot bind an ND port. The error does not blame another process, and Bind succeeds once
// descriptors are free.
func TestBindWithoutDescriptors(t *testing.T) {
	here := netlabtest.Loopback()[0]
	a, err := OpenAdapter(AdapterConfig{Address: here, UDPPort: netlabtest.FreePort(t), Datapath: DatapathUDP})
	must(t, err)
	defer a.Close()
	bind := func(port uint16) error {
		l, err := a.CreateListener()
		must(t, err)
		defer l.Close()
		return l.Bind(netip.AddrPortFrom(here, port))
	}
	var given, chosen error
	WithoutDescriptors(t, func() { given, chosen = bind(7001), bind(0) })
	for _, err := range []error{given, chosen} {
		wantStatus(t, "without descriptors", err, ErrInsufficientResources)
		wantOneLine(t, err, "needs a socket", "ulimit -n")
	}
	must(t, bind(7001))
	must(t, bind(0))
}

// Whichever step of opening an adapter lacks a descriptor, the error states the remedy once.
func TestOpenWithoutDescriptors(t *testing.T) {
	here := netlabtest.Loopback()[0]
	cfg := AdapterConfig{Address: here, UDPPort: netlabtest.FreePort(t)}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	failures := 0
	for _, d := range []Datapath{DatapathAuto, DatapathUDP} {
		cfg.Datapath = d
		for more := uint64(0); ; more++ {
			free, err := unix.Dup(0) // the lowest free descriptor
			must(t, err)
			must(t, unix.Close(free))
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free) + more, Max: limit.Max}))
			a, err := OpenAdapter(cfg)
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
			if err == nil {
				must(t, a.Close())
				break
			}
			failures++
			wantStatus(t, "without descriptors", err, ErrInsufficientResources)
			if n := strings.Count(err.Error(), "ulimit -n"); n != 1 {
				t.Errorf("%s with %d more descriptors: the error states the remedy %d times: %v", d, more, n, err)
			}
		}
	}
	if failures < 4 {
		t.Errorf("%d opens failed", failures)
	}
}

// If Connect gets no socket for want of descriptors, the error does not claim that the peer is unreachable. Once descriptors are
// free, the connector connects.
func TestConnectWithoutDescriptors(t *testing.T) {
	here := netlabtest.Loopback()
	port := netlabtest.FreePort(t)
	a, err := OpenAdapter(AdapterConfig{Address: here[0], UDPPort: port, Datapath: DatapathUDP})
	must(t, err)
	defer a.Close()
	peer, err := OpenAdapter(AdapterConfig{Address: here[1], UDPPort: port, Datapath: DatapathUDP}) // a connection to the adapter itself takes no socket
	must(t, err)
	defer peer.Close()
	for name, bound := range map[string]bool{"ND port": false, "source port": true} {
		c, err := a.CreateConnector()
		must(t, err)
		defer c.Close()
		if bound {
			must(t, c.Bind(netip.AddrPortFrom(here[0], 0)))
		}
		connect := func() error {
			cq, err := a.CreateCompletionQueue(8)
			must(t, err)
			defer cq.Close()
			qp, err := a.CreateQueuePair(QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 1, InitiatorDepth: 1})
			must(t, err)
			defer qp.Close()
			return c.Connect(t.Context(), qp, netip.AddrPortFrom(here[1], 7001), ConnectParams{})
		}
		before := a.Stats().Drops
		WithoutDescriptors(t, func() { err = connect() })
		if after := a.Stats().Drops; bound && (after["no_descriptors"] != before["no_descriptors"]+1 || after["port_taken"] != before["port_taken"]) {
			t.Errorf("%s: drops are %v, want one try, for want of descriptors", name, after)
		}
		wantStatus(t, name, err, ErrInsufficientResources)
		wantOneLine(t, err, "socket", "ulimit -n")
		wantStatus(t, name+", later", connect(), ErrConnectionRefused)
	}
}
