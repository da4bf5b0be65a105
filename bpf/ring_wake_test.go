package bpf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/rxring"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// epollOn watches descriptors until the test ends.
func epollOn(t *testing.T, fds ...int) (epoll int) {
	t.Helper()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	testhelp.Must(t, err)
	t.Cleanup(func() { testhelp.Must(t, unix.Close(epoll)) })
	for _, fd := range fds {
		testhelp.Must(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
	}
	return epoll
}

// awaitEvent sleeps until one of the descriptors of an epoll instance has an event, and returns the descriptor. It fails the test
// after a while.
func awaitEvent(t *testing.T, epoll int, what func() string) (fd int) {
	t.Helper()
	const patience = 10 * time.Second
	for deadline := time.Now().Add(patience); ; {
		var events [1]unix.EpollEvent
		n, err := unix.EpollWait(epoll, events[:], int(max(0, time.Until(deadline).Milliseconds())))
		switch {
		case n > 0:
			return int(events[0].Fd)
		case err == nil:
			netlabtest.Hang(t, "no sleeper is woken within %v: %s", patience, what())
		case !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		}
	}
}

// A process announces its sleep, finds no packet and sleeps. The next packet wakes it, whether it goes into the ring or to the
// socket. The test searches for the moment between the program's check for a sleeper and its reservation of a record: the process
// sleeps later if the program saw it, and earlier if it did not.
func TestRingWakes(t *testing.T) {
	for name, sleep := range map[string]rxring.Sleep{"at the socket": rxring.AtSocket, "at the ring": rxring.AtRing} {
		t.Run(name, func(t *testing.T) { ringWakes(t, sleep) })
	}
}

func ringWakes(t *testing.T, sleep rxring.Sleep) {
	const packets = 5000
	p := newRingPair(t, netlab.PairConfig{})
	r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort))
	ring, _ := r.ring.FDs()
	var sock int
	control(t, r.sock, func(fd int) error { sock = fd; return nil })
	epoll := epollOn(t, ring, sock)
	sender := connect(t, p.B, r.at)
	var begun atomic.Int64 // packets that may be sent
	sent := make(chan error, 1)
	onOneProcessor(t)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends bound to its processor
		if err := moveTo(1); err != nil {
			sent <- err
			return
		}
		for n := range packets {
			for begun.Load() <= int64(n) {
				runtime.Gosched() // a channel would take longer than the interval under test
			}
			if _, err := sender.Write([]byte(pattern(n, 64))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	defer func() { begun.Store(packets); testhelp.Must(t, <-sent) }()
	woken, late, dither := map[int]int{}, 0, rand.New(rand.NewPCG(1, 2))
	for n := range packets {
		begun.Store(int64(n) + 1)
		for range late + dither.IntN(100) { // a delay shorter than any clock can measure
			begun.Load()
		}
		for arrived := false; !arrived; {
			r.rx.Sleeps(sleep)
			by := 0
			if !r.rx.Waiting() {
				by = awaitEvent(t, epoll, func() string { return fmt.Sprintf("packet %d, %+v", n, r.counts(t)) })
			}
			r.rx.Sleeps(rxring.Awake)
			var got arrival
			if got, arrived = r.look(t); !arrived {
				continue
			}
			if got.payload != pattern(n, 64) {
				t.Fatalf("packet %d: %q", n, got.payload)
			}
			woken[by]++
			switch {
			case by == sock, sleep == rxring.AtRing && by == ring:
				late += 20
			case by == 0:
				late = max(0, late-20)
			}
		}
	}
	if sleep == rxring.AtRing && woken[sock] > 0 {
		t.Errorf("the socket had %d packets although the process slept on the ring", woken[sock])
	}
	t.Logf("woken by the ring %d times, by the socket %d, not asleep %d", woken[ring], woken[sock], woken[0])
}

// A sleeper on the ring is woken once, however many packets arrive until it announces its sleep again: a wake-up by the program is
// an interrupt that the processor sends to itself.
func TestRingWakesOnce(t *testing.T) {
	p := newRingPair(t, netlab.PairConfig{})
	r := receiveAt(t, p, netip.AddrPortFrom(p.AddrA.Addr(), testPort))
	ring, _ := r.ring.FDs()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	testhelp.Must(t, err)
	t.Cleanup(func() { testhelp.Must(t, unix.Close(epoll)) })
	testhelp.Must(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, ring, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(ring)})) // reports wake-ups alone
	sender := connect(t, p.B, r.at)
	send := func(n int) {
		for range n {
			_, err := sender.Write([]byte("wake up"))
			testhelp.Must(t, err)
		}
	}
	onOneProcessor(t) // the program runs, and wakes the sleeper, within a Write
	for range 10 {
		r.rx.Sleeps(rxring.AtRing)
		send(1)
		awaitEvent(t, epoll, func() string { return fmt.Sprintf("%+v", r.counts(t)) })
		send(5)
		var events [1]unix.EpollEvent
		if n, err := unix.EpollWait(epoll, events[:], 0); n > 0 {
			t.Fatalf("woken again, %v", err)
		}
	}
}
