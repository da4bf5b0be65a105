package nd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// imposter takes a name of an adapter (PROTOCOL §7.8), as any user of the machine can, until leave is called or the test ends. It
// never reads its socket.
func imposter(t *testing.T, ns *netlab.Namespace, kind int, name string) (leave func()) {
	t.Helper()
	fd := -1
	must(t, ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	leave = func() {
		if fd >= 0 {
			must(t, unix.Close(fd))
			fd = -1
		}
	}
	t.Cleanup(leave)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	if kind == unix.SOCK_STREAM {
		must(t, unix.Listen(fd, 1))
	}
	return leave
}

// If a process has the name of the well-known port without the port, adapters still use the port: peers are served, and Info
// reports the process.
func TestImposterOfTheWellKnownPort(t *testing.T) {
	t.Parallel()
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	at := netip.AddrPortFrom(pair.AddrB.Addr(), DefaultUDPPort)
	leave := imposter(t, pair.B, unix.SOCK_STREAM, fmt.Sprintf("@ndxdp/%s/udp", at))
	r := &rig{pair: pair, a: openIn(t, pair.A, AdapterConfig{Address: pair.AddrA.Addr()}), b: openIn(t, pair.B, AdapterConfig{Address: pair.AddrB.Addr()})}
	if i := r.b.Datapath(); !strings.Contains(i.Reason, fmt.Sprintf("squatted by process %d", os.Getpid())) {
		t.Errorf("%s: %s", i.Datapath, i.Reason)
	}
	moveEverything(t, r)
	leave()
	moveEverything(t, r)
}

// If a process has the name of an ND port and does not answer, requests to it time out until its queue is full. Later requests are
// refused. Other listeners are not affected.
func TestImposterOfAnNDPort(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1500, DatapathAuto)
	const port = 7300
	imposter(t, r.pair.B, unix.SOCK_DGRAM, fmt.Sprintf("@ndxdp/%s/nd/%d", netip.AddrPortFrom(r.addr[1], DefaultUDPPort), port))
	l, err := r.b.CreateListener()
	must(t, err)
	defer l.Close()
	wantStatus(t, "bind", l.Bind(netip.AddrPortFrom(r.addr[1], port)), ErrSharingViolation)
	const clients = 40 // each sends several requests within the time-out, and the queue holds few
	var attempts [clients]<-chan error
	for i := range attempts {
		e := newEnd(t, r.a, 64)
		attempts[i] = start(func() error {
			return e.ctr.Connect(t.Context(), e.qp, netip.AddrPortFrom(r.addr[1], port), ConnectParams{})
		})
	}
	moveEverything(t, r)
	refused := 0
	for _, done := range attempts {
		switch err := finish(t, "connect", done); {
		case errors.Is(err, ErrConnectionRefused):
			refused++
		case !errors.Is(err, ErrIOTimeout):
			t.Errorf("connect: %v", err)
		}
	}
	if drops := r.b.Stats().Drops["backlog"]; refused == 0 || drops == 0 {
		t.Errorf("%d of %d were refused, and %d requests dropped", refused, clients, drops)
	}
}
