package datapath

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/plan"
	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// wantNAPI compares the NAPI settings of the pair's end, "napi_defer_hard_irqs gro_flush_timeout", through a sysfs of its namespace.
func wantNAPI(t *testing.T, pair *netlab.Pair, when, want string) {
	t.Helper()
	must(t, pair.A.Do(func() error {
		fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
		must(t, err)
		defer unix.Close(fs)
		must(t, unix.FsconfigCreate(fs))
		mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(mount)
		dir := fmt.Sprintf("/proc/self/fd/%d/class/net/%s", mount, pair.NameA)
		rounds, failed := os.ReadFile(dir + "/napi_defer_hard_irqs")
		timeout, err := os.ReadFile(dir + "/gro_flush_timeout")
		if got := strings.Join(strings.Fields(string(rounds)+string(timeout)), " "); got != want {
			t.Errorf("%s: NAPI settings %q, want %q", when, got, want)
		}
		return errors.Join(failed, err)
	}))
}

const usualNAPI, busyNAPI = "0 0", "2 200001"

// TestBusyPollIsNotHadOnVeth: the kernel does not know the receive loop of a veth, so that nothing is changed, and the reason is told;
// a client of a broker is told the same.
func TestBusyPollIsNotHadOnVeth(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, datapath := range []plan.Datapath{plan.Native, plan.Generic} {
		must(t, pair.A.Do(func() error {
			d, err := Open(plan.Config{Address: pair.AddrA.Addr(), Datapath: datapath, BusyPoll: true})
			if err != nil {
				return err
			}
			if i := d.Info(); i.Socket.BusyPoll || !strings.HasSuffix(i.Reason, noBusyPoll) {
				t.Errorf("%s: %+v", datapath, i)
			}
			wantNAPI(t, pair, datapath.String(), usualNAPI)
			return d.Close()
		}))
	}
	r := broker.Request{Address: pair.AddrA.Addr(), UDPPort: 14791, Datapath: "native"}
	must(t, pair.A.Do(func() error {
		l, err := OpenBrokered(&r, Terms{Interface: pair.NameA, UDPPort: 14791, BusyPoll: true})
		if err != nil {
			return err
		}
		if g, _ := l.Grant(); g.BusyPoll || !strings.Contains(g.Reason, noBusyPoll) {
			t.Errorf("%+v", g)
		}
		wantNAPI(t, pair, "leased", usualNAPI)
		return l.Close()
	}))
}

// TestTune: the settings change only if the receive loops of all queues are run by pollers, and are what they were once everything is
// taken down, be it after a failure.
func TestTune(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	for _, c := range []struct {
		queues []bool // of which pollers run the loop
		want   string
	}{{[]bool{true, true}, busyNAPI}, {[]bool{true, false}, usualNAPI}, {[]bool{false}, usualNAPI}, {nil, usualNAPI}} {
		d := &xdpDevice{}
		for _, polled := range c.queues {
			d.queues = append(d.queues, &queue{busyPoll: polled})
		}
		must(t, pair.A.Do(func() error {
			nic, err := xdp.Inspect(pair.NameA)
			must(t, err)
			return d.tune(nic)
		}))
		wantNAPI(t, pair, fmt.Sprint(c.queues), c.want)
		for i, q := range d.queues {
			if q.busyPoll != (c.want == busyNAPI) || d.info.Socket.BusyPoll != q.busyPoll {
				t.Errorf("%v: queue %d is polled: %t", c.queues, i, q.busyPoll)
			}
		}
		d.queues = nil
		must(t, d.detach())
		wantNAPI(t, pair, fmt.Sprint(c.queues, " taken down"), usualNAPI)
	}
}

// TestReadyPollsTheDriver: where pollers run the receive loop a look at an empty ring does so, and nowhere else.
func TestReadyPollsTheDriver(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	umem, err := xdp.NewUMEM(xdp.UMEMConfig{})
	must(t, err)
	var sock *xdp.Socket
	must(t, pair.A.Do(func() (err error) {
		sock, err = xdp.Open(umem, xdp.Config{Ifindex: pair.IfindexA, Mode: xdp.ModeCopy})
		return err
	}))
	defer func() { must(t, errors.Join(sock.Close(), umem.Close())) }()
	for _, polled := range []bool{false, true} {
		q := &queue{sock: sock, busyPoll: polled}
		before, err := sock.Stats()
		must(t, err)
		if q.Ready() {
			t.Error("ready without a packet")
		}
		after, err := sock.Stats()
		must(t, err)
		if got := after.Polls - before.Polls; got != map[bool]uint64{true: 1}[polled] {
			t.Errorf("polled %t: %d calls", polled, got)
		}
	}
}
