package datapath

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = time.Minute

// newTestSleeper watches one end of a pair of sockets; arrive sends it a packet, take receives it.
func newTestSleeper(t *testing.T) (s *sleeper, arrive, take func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	s, err = newSleeper(fds[0])
	must(t, err)
	t.Cleanup(func() {
		_ = s.closeSleeper() // a test may have closed it
		must(t, unix.Close(fds[0]))
		must(t, unix.Close(fds[1]))
	})
	arrive = func() {
		t.Helper()
		_, err := unix.Write(fds[1], []byte{1})
		must(t, err)
	}
	take = func() {
		t.Helper()
		_, err := unix.Read(fds[0], make([]byte, 8))
		must(t, err)
	}
	return s, arrive, take
}

// returns waits for a Wait in the background.
func returns(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: Wait did not return", what)
	}
}

func wait(s *sleeper, timeout time.Duration, packets bool) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		s.Wait(timeout, packets)
		close(done)
	}()
	return done
}

func TestWakeBeforeWait(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	for _, packets := range []bool{true, false} {
		s.Wake()
		s.Wake() // one token, however often
		returns(t, "woken before", wait(s, time.Hour, packets))
	}
}

// Wake and Wait race in every way that two processors bring about: no wake-up is lost.
func TestWakeIsNeverLost(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	for i := range 3000 {
		done := wait(s, -1, true)
		if i%2 == 0 {
			for range i % 100 { // at another moment each time
				_ = readable(s.sock)
			}
		}
		s.Wake()
		returns(t, "woken", done)
		select { // a token may be left, and would end the next Wait
		case <-s.wake:
		default:
		}
	}
}

func TestWaitTimesOut(t *testing.T) {
	s, arrive, take := newTestSleeper(t)
	for _, packets := range []bool{true, false} {
		if !packets {
			arrive() // is not what this Wait looks at
		}
		began := time.Now()
		returns(t, "time-out", wait(s, 5*time.Millisecond, packets))
		if took := time.Since(began); took < 4*time.Millisecond {
			t.Errorf("packets %t: returned after %v, want 5 ms", packets, took)
		}
	}
	take()
	returns(t, "no time", wait(s, 0, true))
	// A time-out in the past does not stay: the next Wait waits again.
	began := time.Now()
	returns(t, "time-out again", wait(s, 5*time.Millisecond, true))
	if took := time.Since(began); took < 4*time.Millisecond {
		t.Errorf("returned after %v, want 5 ms", took)
	}
}

func TestWaitSeesPackets(t *testing.T) {
	s, arrive, take := newTestSleeper(t)
	for i := range 200 {
		if i%2 == 0 {
			arrive()
			returns(t, "packet before", wait(s, -1, true))
		} else {
			done := wait(s, -1, true)
			arrive()
			returns(t, "packet during", done)
		}
		take()
	}
	// A packet that was there all the time ends every Wait, not just the first.
	arrive()
	for range 3 {
		returns(t, "packet still there", wait(s, -1, true))
	}
}

func TestWaitAfterClose(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	done := wait(s, -1, true)
	must(t, s.closeSleeper())
	returns(t, "closed during", done)
	returns(t, "closed before", wait(s, -1, true))
	s.Wake()
}

func TestWaitAllocatesNothing(t *testing.T) {
	s, arrive, _ := newTestSleeper(t)
	arrive()
	if n := testing.AllocsPerRun(200, func() {
		s.Wait(time.Second, true)
		s.Wake()
		s.Wait(time.Second, false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
