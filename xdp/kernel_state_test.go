package xdp_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// sendSmall transmits n packets of 60 bytes and kicks once.
func sendSmall(t testing.TB, x *xdp.Socket, n int) {
	t.Helper()
	var descs []xdp.Desc
	for i := range n {
		var ok bool
		if descs, ok = putPacket(x, descs, 60, i); !ok {
			t.Fatalf("only %d tx frames", i)
		}
	}
	if got := x.Transmit(descs); got != n {
		t.Fatalf("Transmit = %d, want %d", got, n)
	}
	if _, err := x.Kick(); err != nil {
		t.Fatal(err)
	}
}

// TestKernelStatistics provokes a full rx ring and an empty fill ring and finds them in the counters.
func TestKernelStatistics(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	a := l.a.open(t, xdp.Config{})
	b := l.b.open(t, xdp.Config{RxRing: 64, FillRing: 64, TxRing: 64, CompletionRing: 64, RxFrames: 128})
	// The rx ring has 64 slots and the fill ring had 64 frames: the 65th packet finds neither a slot nor a frame.
	sendSmall(t, a, 100)
	drain(t, a)
	st := waitStats(t, b, func(st xdp.Statistics) bool { return st.RxRingFull+st.RxDropped+st.FillRingEmpty >= 36 })
	if st.FillRingEmpty == 0 {
		t.Errorf("no empty fill ring: %+v", st)
	}
	// If there are frames and the rx ring is full, the full rx ring is counted.
	b.Refill()
	sendSmall(t, a, 20)
	waitStats(t, b, func(st xdp.Statistics) bool { return st.RxRingFull >= 20 })
}

func waitStats(t testing.TB, x *xdp.Socket, enough func(xdp.Statistics) bool) xdp.Statistics {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); ; {
		st, err := x.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if enough(st) {
			return st
		}
		if time.Now().After(deadline) {
			t.Fatalf("statistics stay at %+v", st)
		}
		runtime.Gosched()
	}
}

// TestKernelTxBudget counts the system calls for 128 packets.
func TestKernelTxBudget(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	l.b.open(t, xdp.Config{})
	for _, budget := range []uint32{0, 128} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			a := l.a.open(t, xdp.Config{TxBudget: budget})
			defer a.Close()
			if budget != 0 && a.Info().TxBudget != budget {
				t.Skipf("needs XDP_MAX_TX_SKB_BUDGET: Linux 6.17; this kernel stays at %d", a.Info().TxBudget)
			}
			sendSmall(t, a, 128)
			st, err := a.Stats()
			if want := uint64(128 / a.Info().TxBudget); err != nil || st.Kicks != want || a.TxUnsent() != 0 {
				t.Errorf("%d calls, want %d; %d unsent; %v", st.Kicks, want, a.TxUnsent(), err)
			}
			drain(t, a)
		})
	}
}

// TestKernelInterfaceDown kicks while the interface is down: the error says so, and further kicks do not allocate.
func TestKernelInterfaceDown(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	a := l.a.open(t, xdp.Config{})
	dev, err := l.a.nl.LinkByName(l.a.name)
	if err == nil {
		err = l.a.nl.LinkSetDown(dev)
	}
	if err != nil {
		t.Fatal(err)
	}
	descs, _ := putPacket(a, nil, 60, 1)
	if n := a.Transmit(descs); n != 1 {
		t.Fatal(n)
	}
	left, err := a.Kick()
	if left != 0 || !errors.Is(err, unix.ENETDOWN) || !strings.Contains(err.Error(), "bring the interface up") {
		t.Errorf("Kick: %d left, %v", left, err)
	}
	if n := testing.AllocsPerRun(50, func() { _, _ = a.Kick() }); n != 0 {
		t.Errorf("%v allocations per failing Kick, want 0", n)
	}
	l.a.up(t)
	drain(t, a)
}

// TestKernelPeerDown sends to a peer that is down: the device drops the packet, and the frames are completed.
func TestKernelPeerDown(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	a := l.a.open(t, xdp.Config{})
	dev, err := l.b.nl.LinkByName(l.b.name)
	if err == nil {
		err = l.b.nl.LinkSetDown(dev)
	}
	if err != nil {
		t.Fatal(err)
	}
	sendSmall(t, a, 5)
	drain(t, a)
	st, err := a.Stats()
	if err != nil || a.TxFree() != 512 || st.Completions != 5 || st.TxLost != 5 {
		t.Errorf("%d tx frames free, %+v, %v", a.TxFree(), st, err)
	}
}

// TestKernelNoAllocs runs whole polls with the real kernel, including system calls.
func TestKernelNoAllocs(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	a, b := l.a.open(t, xdp.Config{}), l.b.open(t, xdp.Config{})
	descs := make([]xdp.Desc, 64)
	if n := testing.AllocsPerRun(50, func() {
		batch(a, descs, 16)
		batch(b, descs, 0)
	}); n != 0 {
		t.Errorf("%v allocations per poll, want 0", n)
	}
	drain(t, a)
}

// TestKernelInspect reads the facts of a veth interface.
func TestKernelInspect(t *testing.T) {
	l := newLab(t, 9000, 2, link.XDPGenericMode)
	err := l.a.in(t, func() error {
		nic, err := xdp.Inspect(l.a.name)
		if err != nil {
			return err
		}
		if nic.Name != l.a.name || nic.Index != l.a.ifindex || nic.Driver != "veth" || nic.MTU != 9000 || !nic.Up ||
			nic.RxQueues != 2 || nic.TxQueues != 2 || len(nic.MAC) != 6 {
			t.Errorf("%+v", nic)
		}
		_, err = xdp.Inspect("no-such-if")
		if err == nil || !strings.Contains(err.Error(), "no-such-if") {
			t.Errorf("unknown interface: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSupported(t *testing.T) {
	err := xdp.Supported()
	switch {
	case err == nil:
		if !xdp.MultiBufferSupported() {
			t.Log("no multi-buffer: Linux before 6.6")
		}
	case errors.Is(err, xdp.ErrPermission):
		if !strings.Contains(err.Error(), "CAP_") {
			t.Errorf("names no capability: %v", err)
		}
	case !errors.Is(err, xdp.ErrNotSupported):
		t.Error(err)
	}
}
