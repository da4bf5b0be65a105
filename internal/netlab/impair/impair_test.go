package impair

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

const testPort = 14791

// line is a star of two hosts, with the program on the way to the second host.
type line struct {
	*netlab.Star
	impairment *Impairment
}

func newLine(t *testing.T) *line {
	t.Helper()
	netlabtest.NeedRoot(t)
	star, err := netlab.NewStar(netlab.StarConfig{IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Star: star}
	t.Cleanup(func() {
		if l.impairment != nil {
			if err := star.Router.Do(l.impairment.Close); err != nil {
				t.Error(err)
			}
		}
		if err := star.Close(); err != nil {
			t.Error(err)
		}
	})
	err = star.Router.Do(func() (err error) {
		l.impairment, err = Attach(star.Hosts[1].PortIfindex, testPort)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sockets opens a socket at each host. The first one is connected to the second.
func (l *line) sockets(t *testing.T, to netip.Addr, port uint16) (from, sink *net.UDPConn) {
	t.Helper()
	addr := net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, port))
	err := errors.Join(
		l.Hosts[1].NS.Do(func() (err error) { sink, err = net.ListenUDP("udp", addr); return err }),
		l.Hosts[0].NS.Do(func() (err error) { from, err = net.DialUDP("udp", nil, addr); return err }),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), sink.Close() }) // without buffered data
	if err := sink.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	control(t, sink, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) // the receiver reads only after all packets were sent
	return from, sink
}

func (l *line) set(t *testing.T, cfg Config) {
	t.Helper()
	if err := l.impairment.Set(cfg); err != nil {
		t.Fatal(err)
	}
}

func (l *line) counts(t *testing.T) Counts {
	t.Helper()
	c, err := l.impairment.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends n packets and then an unimpaired one. It returns the packets that arrived before the unimpaired packet.
func (l *line) send(t *testing.T, from, sink *net.UDPConn, cfg Config, n int) (arrived [][]byte) {
	t.Helper()
	write := func(b []byte) {
		if _, err := from.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	payload := make([]byte, 200)
	l.set(t, cfg)
	for range n {
		write(payload)
	}
	l.set(t, Config{})
	write([]byte("end"))
	for {
		buf := make([]byte, 300)
		got, err := sink.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got == len("end") {
			return arrived
		}
		arrived = append(arrived, buf[:got])
	}
}

func TestImpairments(t *testing.T) {
	const n = 200
	changed := func(packets [][]byte) (count int) {
		for _, p := range packets {
			for _, b := range p {
				if b != 0 {
					count++
				}
			}
		}
		return count
	}
	l := newLine(t)
	// The sockets send no UDP checksum, because it would reveal the corruption.
	from, sink := l.sockets(t, l.Hosts[1].Addr.Addr(), testPort)
	withoutChecksum(t, from)
	for name, cfg := range map[string]Config{
		"nothing": {}, "loss": {Loss: 0.25}, "all lost": {Loss: 1}, "duplication": {Duplication: 0.25},
		"corruption": {Corruption: 0.25}, "everything": {Loss: 0.25, Duplication: 0.25, Corruption: 0.25},
	} {
		cfg.Seed = 1
		before := l.counts(t)
		arrived := l.send(t, from, sink, cfg, n)
		after := l.counts(t)
		seen, lost := after.Seen-before.Seen, after.Dropped-before.Dropped
		doubled, spoilt := after.Duplicated-before.Duplicated, after.Corrupted-before.Corrupted
		if seen != n+1 || len(arrived) != n-lost+doubled || changed(arrived) != spoilt {
			t.Errorf("%s: %d arrived, %d changed; %+v after %+v", name, len(arrived), changed(arrived), after, before)
		}
		for what, pair := range map[string]struct {
			probability float64
			count       int
		}{"lost": {cfg.Loss, lost}, "doubled": {cfg.Duplication, doubled}, "corrupted": {cfg.Corruption, spoilt}} {
			// Of 200 packets, a probability of 1/4 gives 50, and the bounds are six standard deviations of 6 away. The random
			// sequence is always the same.
			if want := pair.probability * n; float64(pair.count) < want-36 || float64(pair.count) > want+36 {
				t.Errorf("%s: %d %s, want about %v", name, pair.count, what, want)
			}
			if (pair.probability == 0 || pair.probability == 1) && float64(pair.count) != pair.probability*n {
				t.Errorf("%s: %d %s", name, pair.count, what)
			}
		}
	}
}

// No packet from a dead source port passes, and all packets from other ports do.
func TestDeadPort(t *testing.T) {
	l := newLine(t)
	from, sink := l.sockets(t, l.Hosts[1].Addr.Addr(), testPort)
	own := netip.MustParseAddrPort(from.LocalAddr().String()).Port()
	for _, c := range []struct {
		dead    uint16
		arrives int
	}{{own, 0}, {own ^ 1, 10}, {own<<8 | own>>8, 10}, {0, 10}} {
		if c.dead == own {
			c.arrives = 0
		}
		if got := len(l.send(t, from, sink, Config{DeadPort: c.dead}, 10)); got != c.arrives {
			t.Errorf("%d arrive from port %d while %d is dead, want %d", got, own, c.dead, c.arrives)
		}
	}
}

// The same seed impairs the same packets.
func TestSeed(t *testing.T) {
	l := newLine(t)
	from, sink := l.sockets(t, l.Hosts[1].Addr.Addr(), testPort)
	var dropped []int
	for _, seed := range []uint64{7, 7, 8} {
		before := l.counts(t)
		l.send(t, from, sink, Config{Loss: 0.5, Seed: seed}, 100)
		dropped = append(dropped, l.counts(t).Dropped-before.Dropped)
	}
	if dropped[0] != dropped[1] || dropped[0] == dropped[2] {
		t.Errorf("dropped %d with seed 7, %d again, %d with seed 8", dropped[0], dropped[1], dropped[2])
	}
}

func TestOthersPass(t *testing.T) {
	l := newLine(t)
	from, sink := l.sockets(t, l.Hosts[1].Addr.Addr(), testPort+1)
	if arrived := l.send(t, from, sink, Config{Loss: 1}, 20); len(arrived) != 20 {
		t.Errorf("%d of 20 packets to another port arrived", len(arrived))
	}
	if c := l.counts(t); c != (Counts{}) {
		t.Errorf("%+v", c)
	}
}

func TestMarking(t *testing.T) {
	l := newLine(t)
	const ect0 = 2
	for name, to := range map[string]netip.Addr{"IPv4": l.Hosts[1].Addr.Addr(), "IPv6": l.Hosts[1].Addr6.Addr()} {
		from, sink := l.sockets(t, to, testPort)
		// 242 bytes at 1000 bytes a second: the second packet already waits for long.
		cfg := Config{MarkAfter: time.Millisecond, MarkRate: 1000}
		for _, tos := range []int{0, ect0} {
			setTOS(t, from, to, tos)
			before := l.counts(t)
			l.send(t, from, sink, cfg, 10)
			after := l.counts(t)
			marked, not := after.Marked-before.Marked, after.Unmarkable-before.Unmarkable
			if tos == 0 && (marked != 0 || not != 9) || tos == ect0 && (marked != 9 || not != 0) {
				t.Errorf("%s, type of service %d: %d marked, %d could not be", name, tos, marked, not)
			}
		}
	}
}

func control(t *testing.T, c *net.UDPConn, level, option, value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var optErr error
	err = raw.Control(func(fd uintptr) { optErr = unix.SetsockoptInt(int(fd), level, option, value) })
	if err := errors.Join(err, optErr); err != nil {
		t.Fatal(err)
	}
}

func withoutChecksum(t *testing.T, c *net.UDPConn) {
	control(t, c, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
}

func setTOS(t *testing.T, c *net.UDPConn, to netip.Addr, tos int) {
	if to.Is4() {
		control(t, c, unix.IPPROTO_IP, unix.IP_TOS, tos)
		return
	}
	control(t, c, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos)
}

func TestAttachFails(t *testing.T) {
	netlabtest.NeedRoot(t)
	if p, err := Attach(1<<30, testPort); err == nil {
		t.Error("attached to an interface that does not exist")
		_ = p.Close()
	}
}
