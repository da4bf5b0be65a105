package bpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/link"
)

// fakeLink stands for the attachment of a program that only test runs execute.
type fakeLink struct{ link.Link }

func (fakeLink) Detach() error { return nil }
func (fakeLink) Close() error  { return nil }

// loadForTest loads the program without attaching it anywhere.
func loadForTest(t testing.TB, queues int) *Steering {
	t.Helper()
	cfg := Config{Interface: "test", Port: testPort, Queues: queues}
	objects, err := load(cfg)
	if err != nil {
		t.Fatalf("%+v", &AttachError{Config: cfg, Op: "load", Err: err})
	}
	s := &Steering{cfg: cfg, objects: objects, link: fakeLink{}}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fillSocket enters an unbound AF_XDP socket for a queue. The program can redirect to it.
func fillSocket(t testing.TB, s *Steering, queue uint32) (closeSocket func()) {
	t.Helper()
	fd, err := syscall.Socket(afXDP, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs AF_XDP sockets (CONFIG_XDP_SOCKETS, CAP_NET_RAW): %v", err)
	}
	closeSocket = sync.OnceFunc(func() { _ = syscall.Close(fd) })
	t.Cleanup(closeSocket)
	if err := s.SetSocket(queue, fd); err != nil {
		t.Fatal(err)
	}
	return closeSocket
}

func TestSocketErrors(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 2)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	udp, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(udp)
	for _, test := range []struct {
		name  string
		queue uint32
		fd    int
		want  error
	}{
		{"queue beyond the last", 2, udp, syscall.ERANGE},
		{"negative descriptor", 0, -1, syscall.EBADF},
		{"not a socket", 0, int(file.Fd()), syscall.ENOTSOCK},
		{"not AF_XDP", 0, udp, syscall.EOPNOTSUPP},
	} {
		if err := s.SetSocket(test.queue, test.fd); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	first := fillSocket(t, s, 1)
	fillSocket(t, s, 1) // replaces the first socket
	first()
}

func TestAddresses(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	for _, a := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1")} {
		if err := s.AddAddress(a); err == nil {
			t.Errorf("%s was taken as a local address", a)
		}
	}
	for range 2 {
		if err := s.AddAddress(local4); err != nil {
			t.Error(err)
		}
	}
	if err := s.AddAddress(netip.MustParseAddr("fe80::1%lo")); err != nil {
		t.Error(err)
	}
}

// TestOneAddressOrMany uses no, one and two local addresses: the program has a short cut for one address, and its verdicts must be
// the same.
func TestOneAddressOrMany(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	defer fillSocket(t, s, 0)()
	second := netip.MustParseAddr("192.0.2.77")
	add := func(a netip.Addr) {
		t.Helper()
		if err := s.AddAddress(a); err != nil {
			t.Fatal(err)
		}
	}
	toFirst, toSecond := udpFrame(remote4, local4, testPort), udpFrame(remote4, second, testPort)
	checkVerdict(t, s, toFirst, xdpPass, VerdictNotLocal)
	add(local4)
	checkVerdict(t, s, toFirst, xdpRedirect, VerdictRedirected)
	checkVerdict(t, s, toSecond, xdpPass, VerdictNotLocal)
	checkVerdict(t, s, udpFrame(local4, local4, testPort), xdpDrop, VerdictSpoofed)
	add(second)
	checkVerdict(t, s, toFirst, xdpRedirect, VerdictRedirected)
	checkVerdict(t, s, toSecond, xdpRedirect, VerdictRedirected)
	checkVerdict(t, s, udpFrame(second, local4, testPort), xdpDrop, VerdictSpoofed)
}

func TestTooManyAddresses(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	a := netip.MustParseAddr("10.0.0.1")
	for range MaxAddresses {
		if err := s.AddAddress(a); err != nil {
			t.Fatal(err)
		}
		a = a.Next()
	}
	if err := s.AddAddress(a); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("address %d: %v, want E2BIG", MaxAddresses+1, err)
	}
}

func TestClosedSteering(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, countersErr := s.Counters()
	for _, err := range []error{
		s.SetSocket(0, 0), s.AddAddress(local4), countersErr,
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestCloseWhileInUse(t *testing.T) {
	requireSupport(t)
	s := loadForTest(t, 1)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for {
				if _, err := s.Counters(); err != nil {
					return
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	users.Wait()
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Interface: "no-such-link"},
		{Ifindex: 1 << 30},
		{Interface: "lo", Queues: -1},
		{Interface: "lo", Queues: maxQueues + 1},
		{Interface: "lo", Mode: 7},
	} {
		if s, err := Attach(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
			_ = s.Close()
		}
	}
}

// verifierLog stands for ebpf.VerifierError, which prints its log only with %+v.
type verifierLog struct{}

func (verifierLog) Error() string { return "permission denied: R1 type=scalar" }
func (verifierLog) Format(f fmt.State, verb rune) {
	if f.Flag('+') {
		fmt.Fprint(f, "0: R1=ctx()\n1: the whole log")
	}
}

func TestAttachErrorShowsTheLogOnDemand(t *testing.T) {
	err := &AttachError{Config: Config{Interface: "nd0", Mode: ModeNative}, Op: "load", Err: verifierLog{}, Remedy: "update"}
	const line = "bpf: load program for nd0 in native mode: permission denied: R1 type=scalar (update)"
	if got := fmt.Sprintf("%v", err); got != line || err.Error() != line {
		t.Errorf("%%v: %q", got)
	}
	if got, want := fmt.Sprintf("%+v", err), line+"\n0: R1=ctx()\n1: the whole log"; got != want {
		t.Errorf("%%+v: %q", got)
	}
}

func TestEffectiveCapabilities(t *testing.T) {
	path := t.TempDir() + "/status"
	for _, test := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"Name:\tx\nCapPrm:\t00\nCapEff:\t000001ffffffffff\n", 1<<41 - 1, true},
		{"CapEff:\tzebra\n", 0, false},
		{"Name:\tx\n", 0, false},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := effectiveCapabilities(path)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %x, %v", test.text, got, err)
		}
	}
}
