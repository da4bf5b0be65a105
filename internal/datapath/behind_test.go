package datapath

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
	"github.com/ndxdp/ndxdp/provider"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// long bounds the wait for events that happen eventually, also on a busy machine.
const long = time.Minute

// brokersOf makes a directory that only this user can write, and runs a broker for one side of a pair there.
func brokersOf(t *testing.T, pair *netlab.Pair, serve bool) (directory string) {
	t.Helper()
	directory = t.TempDir()
	must(t, os.Chmod(directory, 0o755))
	if serve {
		serveBroker(t, pair, directory, plan.Auto)
	}
	return directory
}

// serveBroker runs a broker for the pair's end A until stop is called, or the test ends.
func serveBroker(t *testing.T, pair *netlab.Pair, directory string, datapath plan.Datapath) (stop func()) {
	t.Helper()
	l, err := broker.Listen(broker.At(directory, pair.NameA))
	must(t, err)
	terms := Terms{Interface: pair.NameA, UDPPort: wire.DefaultPort, Datapath: datapath}
	s := &broker.Server{
		Allow: broker.Policy{Users: []uint32{uint32(os.Getuid())}}, Log: func(line string) { t.Log(line) },
		Open: func(r broker.Request) (opened broker.Opened, err error) {
			err = pair.A.Do(func() error {
				opened, err = OpenBrokered(&r, terms)
				return err
			})
			return opened, err
		},
		OpenRing: func(r broker.Request) (opened broker.Opened, err error) {
			err = pair.A.Do(func() error {
				opened, err = OpenBrokeredRing(&r, terms)
				return err
			})
			return opened, err
		},
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		end()
		must(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// opened opens an adapter on the pair's side A until the test ends.
func opened(t *testing.T, pair *netlab.Pair, cfg plan.Config) Device {
	t.Helper()
	cfg.Address = pair.AddrA.Addr()
	var d Device
	must(t, pair.A.Do(func() (err error) {
		d, err = Open(cfg)
		return err
	}))
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// prospect returns the forecast for opened.
func prospect(t *testing.T, pair *netlab.Pair, cfg plan.Config) (p plan.Foreseen) {
	t.Helper()
	cfg.Address = pair.AddrA.Addr()
	must(t, pair.A.Do(func() error {
		nic, err := xdp.Inspect(pair.NameA)
		if err == nil {
			p, err = plan.Prospect(&nic, cfg)
		}
		return err
	}))
	return p
}

func wantReason(t *testing.T, d Device, datapath plan.Datapath, say ...string) {
	t.Helper()
	i := d.Info()
	if i.Datapath != datapath || strings.Contains(i.Reason, "\n") {
		t.Errorf("%s, want %s: %s", i.Datapath, datapath, i.Reason)
	}
	for _, text := range say {
		if !strings.Contains(i.Reason, text) {
			t.Errorf("the reason lacks %q: %s", text, i.Reason)
		}
	}
}

// TestLaterAdapterGetsALease: an adapter opened after one of plain sockets gets AF_XDP from the broker, on its own UDP port. The
// next adapter is refused at once, and uses a ring. When the first adapter closes, a later one gets the name of the well-known
// port, and only one does.
func TestLaterAdapterGetsALease(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cfg := plan.Config{Brokers: brokersOf(t, pair, true), Patience: long}
	first := opened(t, pair, plan.Config{Datapath: plan.UDP})
	if said := prospect(t, pair, cfg).Reason; !strings.Contains(said, "is asked for a lease of AF_XDP first") {
		t.Errorf("the prospect is %q", said)
	}
	second := opened(t, pair, cfg)
	third := opened(t, pair, cfg)
	wantReason(t, second, plan.Generic, "leased from a broker: ", "the broker at "+cfg.Brokers, "was asked because another adapter of this machine has UDP port 14791")
	wantReason(t, third, plan.Ring, "another adapter of this machine has UDP port 14791", cfg.Brokers, "a broker leases AF_XDP to one process at a time", "arrive in a ring")
	if first.ReceivePort() != wire.DefaultPort || !wire.IsSourcePort(second.ReceivePort()) || !wire.IsSourcePort(third.ReceivePort()) || second.ReceivePort() == third.ReceivePort() {
		t.Errorf("UDP ports %d, %d, %d", first.ReceivePort(), second.ReceivePort(), third.ReceivePort())
	}
}

// TestLaterAdapterBesideAFXDP: the first adapter receives all packets of the interface by AF_XDP, so no broker can lease it. An
// explicit choice of a datapath asks no broker.
func TestLaterAdapterBesideAFXDP(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cfg := plan.Config{Brokers: brokersOf(t, pair, true), Patience: long}
	first := opened(t, pair, cfg)
	wantReason(t, first, plan.TCX, "veth")
	wantReason(t, opened(t, pair, cfg), plan.Ring, "another adapter of this machine", cfg.Brokers, "is held by another AF_XDP socket")
	cfg.Datapath = plan.UDP
	if d := opened(t, pair, cfg); d.Info().Reason != "asked for" {
		t.Errorf("udp was asked for: %s", d.Info().Reason)
	}
	cfg.Address, cfg.Datapath = pair.AddrA.Addr(), plan.Generic
	must(t, pair.A.Do(func() error {
		if d, err := Open(cfg); err == nil || strings.Contains(err.Error(), "broker") {
			t.Errorf("generic was asked for: %v, %v", d, err)
		}
		return nil
	}))
}

// TestUselessBrokers: whatever file is at the usual place of a broker, a later adapter uses plain sockets with a ring, and gives
// the reason.
func TestUselessBrokers(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	opened(t, pair, plan.Config{Datapath: plan.UDP})
	listen := func(t *testing.T, path string) *net.UnixListener {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, directory, path string)
		say  string
	}{
		{"none", func(*testing.T, string, string) {}, "no broker listens at"},
		{"dead", func(t *testing.T, _, path string) {
			l := listen(t, path)
			l.SetUnlinkOnClose(false)
			l.Close()
		}, "connection refused"},
		{"silent", func(t *testing.T, _, path string) { listen(t, path) }, "i/o timeout"},
		{"a file", func(t *testing.T, _, path string) { must(t, os.WriteFile(path, nil, 0o666)) }, "the wrong kind of file"},
		{"a link", func(t *testing.T, directory, path string) {
			listen(t, filepath.Join(directory, "real"))
			must(t, os.Symlink("real", path))
		}, "the wrong kind of file"},
		{"of another user", func(t *testing.T, _, path string) {
			listen(t, path)
			must(t, os.Chown(path, 1000, 1000))
		}, "may change it"},
		{"in a directory of another user", func(t *testing.T, directory, path string) {
			listen(t, path)
			must(t, os.Chown(directory, 1000, 1000))
		}, "may change it"},
		{"in a directory that others can write", func(t *testing.T, directory, path string) {
			listen(t, path)
			must(t, os.Chmod(directory, 0o1777))
		}, "may change it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := brokersOf(t, pair, false)
			c.make(t, directory, broker.At(directory, pair.NameA))
			if said := prospect(t, pair, plan.Config{Brokers: directory}); c.say != "connection refused" && c.say != "i/o timeout" && !strings.Contains(said.Reason, c.say) {
				t.Errorf("the prospect is %q, want %q", said.Reason, c.say)
			}
			d := opened(t, pair, plan.Config{Brokers: directory, Patience: 20 * time.Millisecond})
			wantReason(t, d, plan.Ring, "another adapter of this machine has UDP port 14791", directory, c.say)
		})
	}
}

// TestBrokerKeepsThePort: a slow broker has the well-known port while plain sockets are opened. The sockets use another port, and
// the well-known port as soon as it is free.
func TestBrokerKeepsThePort(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	cfg := plan.Config{Address: pair.AddrA.Addr(), UDPPort: wire.DefaultPort}
	var held *net.UDPConn
	var d Device
	must(t, pair.A.Do(func() (err error) {
		if held, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.Address, cfg.UDPPort))); err != nil {
			return err
		}
		b, err := survey(cfg, true)
		if err != nil {
			return err
		}
		b.shared.Asked = true
		d, err = b.try(&plan.Candidate{Reason: "a test"}, nil)
		return err
	}))
	if !wire.IsSourcePort(d.ReceivePort()) {
		t.Errorf("UDP port %d", d.ReceivePort())
	}
	d.Watch(func(error) {}, func(int, func(*provider.Engine)) {})
	must(t, held.Close())
	testhelp.Eventually(t, "the well-known port is taken", func() bool {
		var free bool
		must(t, pair.A.Do(func() error {
			conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.Address, cfg.UDPPort)))
			if free = err == nil; free {
				conn.Close()
			}
			return nil
		}))
		return !free
	})
	must(t, d.Close())
}
