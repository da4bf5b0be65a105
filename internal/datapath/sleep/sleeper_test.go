package sleep

import (
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"

	"github.com/ndxdp/ndxdp/internal/udp"
)

// newTestSleeper watches one of a pair of sockets. arrive sends a packet to it, and take receives the packet.
func newTestSleeper(t testing.TB) (s *Sleeper, arrive, take func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	s, err = New(fds[0], func() bool { return udp.Readable(fds[0]) }, 0)
	must(t, err)
	t.Cleanup(func() {
		_ = s.Close() // the test may have closed it
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

// A sleeper announces its sleep before each poll, also after a wake-up without a packet: a goroutine that woke it need not do so
// twice.
func TestSleeperSaysSoBeforeEachLook(t *testing.T) {
	s, arrive, take := newTestSleeper(t)
	var mu sync.Mutex
	said := ""
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		said += what
	}
	s.Dozes = func(yes bool) { note(map[bool]string{true: "sleeps ", false: "awake"}[yes]) }
	arrived := s.arrived
	s.arrived = func() bool {
		defer note("looks ")
		return arrived()
	}
	done := wait(s, -1)
	for first := false; !first; runtime.Gosched() {
		mu.Lock()
		first = strings.HasSuffix(said, "sleeps looks ")
		mu.Unlock()
	}
	arrive()
	returns(t, "a packet", done)
	take()
	if !regexp.MustCompile("^(sleeps looks ){2,}awake$").MatchString(said) {
		t.Errorf("the sleeper %q", said)
	}
}

// A Wait that was shortened ends at the new time, also if it was shortened before it began.
func TestShortenedWait(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	for _, begun := range []bool{true, false} {
		shorten := func() clock.Time {
			until := clock.Machine().Add(5 * time.Millisecond)
			s.Shorten(until)
			return until
		}
		var until clock.Time
		if !begun {
			until = shorten()
		}
		done := wait(s, -1)
		if begun {
			for waiting := false; !waiting; runtime.Gosched() {
				s.mu.Lock()
				waiting = s.waiting
				s.mu.Unlock()
			}
			until = shorten()
			s.Shorten(until.Add(time.Hour)) // a later time does not extend the Wait
		}
		returns(t, "shortened", done)
		if begun && clock.Machine() < until {
			t.Error("it returned too early")
		}
	}
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

// wait starts a Wait in the background that lasts for d. A negative d means no limit.
func wait(s *Sleeper, d time.Duration) <-chan struct{} {
	until := clock.Never
	if d >= 0 {
		until = clock.Machine().Add(d)
	}
	return background(func() { s.Wait(until, false) })
}

func background(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	return done
}

func TestWakeBeforeWait(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	s.Wake()
	s.Wake() // one token, however often it is called
	returns(t, "woken before", wait(s, time.Hour))
	s.Rouse()
	s.Rouse()
	returns(t, "roused before", wait(s, time.Hour))
	s.Remind(0)
	s.Remind(0)
	returns(t, "reminded before", background(func() { s.Pause(time.Hour) }))
	s.Remind(0)
	returns(t, "reminded before an endless pause", background(func() { s.Pause(-1) }))
}

// Wake and Wait race in every order that two processors can cause, and no wake-up is lost. Remind and Pause race likewise, and no
// wake-up is lost.
func TestWakeIsNeverLost(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	for i := range 3000 {
		done := wait(s, -1)
		paused := background(func() { s.Pause([]time.Duration{-1, time.Hour}[i/2%2]) })
		if i%2 == 0 {
			for range i % 100 { // the delay differs in each round
				_ = udp.Readable(s.socks[0])
			}
		}
		[]func(){s.Wake, s.Rouse}[i/4%2]()
		s.Remind(0)
		returns(t, "woken", done)
		returns(t, "reminded", paused)
		s.woken.Store(false) // a token may be left, and would end the next Wait
		s.reminded.Store(false)
		s.tick.Stop()
	}
}

func TestWaitTimesOut(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	for _, d := range []time.Duration{5 * time.Millisecond, 0, 50 * time.Microsecond, 5 * time.Millisecond} {
		began := clock.Machine()
		returns(t, "time-out", background(func() { s.Wait(began.Add(d), false) }))
		if took := clock.Machine().Sub(began); took < d {
			t.Errorf("returned after %v, want %v", took, d)
		}
	}
	began := time.Now()
	returns(t, "pause", background(func() { s.Pause(5 * time.Millisecond) }))
	if took := time.Since(began); took < 5*time.Millisecond {
		t.Errorf("paused for %v, want 5 ms", took)
	}
	paused := background(func() { s.Pause(-1) })
	s.Remind(5 * time.Millisecond)
	returns(t, "reminded", paused)
	if took := time.Since(began); took < 10*time.Millisecond {
		t.Errorf("paused for %v, want 10 ms", took)
	}
}

// The timer of an earlier sleep ends no later sleep.
func TestEarlierAlarm(t *testing.T) {
	s, arrive, take := newTestSleeper(t)
	began := clock.Machine()
	arriving := background(func() { s.Wait(began.Add(100*time.Millisecond), false) })
	for begun := false; !begun; { // on a busy machine it may have ended by then
		s.mu.Lock()
		begun = s.waits > 0
		s.mu.Unlock()
		runtime.Gosched()
	}
	arrive()
	returns(t, "packet", arriving)
	take()
	returns(t, "time", background(func() { s.Wait(began.Add(150*time.Millisecond), false) }))
	if d := clock.Machine().Sub(began); d < 150*time.Millisecond {
		t.Errorf("returned after %v, want 150 ms", d)
	}
}

func TestWaitSeesPackets(t *testing.T) {
	s, arrive, take := newTestSleeper(t)
	for i := range 200 {
		if i%2 == 0 {
			arrive()
			returns(t, "packet before", wait(s, -1))
		} else {
			done := wait(s, -1)
			arrive()
			returns(t, "packet during", done)
		}
		take()
		if i%10 == 9 {
			s.Pause(0)
			s.Pause(0)
			if s.member {
				t.Fatal("the socket is watched although no goroutine sleeps")
			}
		}
	}
	// A packet that stays unread ends every Wait, not only the first.
	arrive()
	for range 3 {
		returns(t, "packet still there", wait(s, -1))
	}
}

// During a Pause the socket is still watched for other sleepers.
func TestPauseBesideAWait(t *testing.T) {
	s, arrive, _ := newTestSleeper(t)
	done := wait(s, -1)
	for waiting := false; !waiting; {
		s.mu.Lock()
		waiting = s.waiting
		s.mu.Unlock()
	}
	for range 3 {
		s.Pause(0)
	}
	arrive()
	returns(t, "packet", done)
}

func TestWaitAfterClose(t *testing.T) {
	s, _, _ := newTestSleeper(t)
	done := wait(s, -1)
	must(t, s.Close())
	returns(t, "closed during", done)
	returns(t, "closed before", wait(s, -1))
	s.Wake()
	s.Rouse()
}

func TestWaitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s, arrive, take := newTestSleeper(t)
	if n := testing.AllocsPerRun(200, func() {
		s.Wait(clock.Machine().Add(10*time.Microsecond), true)
		arrive()
		s.Wait(clock.Never, true)
		take()
		s.Wake()
		s.Wait(clock.Never, true)
		s.Rouse()
		s.Wait(clock.Never, true)
		s.Pause(0)
		s.Pause(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// If polls find next to nothing, they are skipped for a while, although longer polls would find more: other goroutines and the peer
// get the processor meanwhile.
func TestLooksThatFindNothingRest(t *testing.T) {
	p := newSpinner(DefaultSpin)
	p.preemptions = func() int64 { return 0 }
	sleep := func(hit bool) (looked bool) {
		before := p.spins.Load()
		if !p.pays(func() bool { return hit }) {
			p.slept(p.began.Add(90*time.Microsecond), false)
		}
		return p.spins.Load() != before
	}
	looks := func(n int, hit func(i int) bool) (looked int) {
		for i := range n {
			if sleep(hit(i)) {
				looked++
			}
		}
		return looked
	}
	never := func(int) bool { return false }
	for n := 0; p.rests == 0; n++ {
		if looks(1, never); n == 1000 {
			t.Fatal("it never rests")
		}
	}
	if n := looks(restSleeps-1, never); n != 0 || p.limit != 0 { // the first pause has passed
		t.Errorf("%d polls in %d sleeps that had to begin without a poll, the next poll limit is %v", n, restSleeps-1, p.limit)
	}
	if n := looks(1000, never); n < 50 || n > 300 {
		t.Errorf("%d polls in 1000 sleeps, all empty", n)
	}
	looks(restSleeps, never)
	if n := looks(1000, func(i int) bool { return i%2 == 0 }); n < 900 {
		t.Errorf("%d polls in 1000 sleeps, half of which they avoided", n)
	}
}

// A spinner polls only while that pays off: for as long as a sleep that polling would have avoided, and less after longer sleeps.
func TestSpinnerTunesItself(t *testing.T) {
	const most = 200 * time.Microsecond
	p := newSpinner(most)
	sleep := func(d time.Duration) {
		p.began = clock.Machine()
		p.slept(p.began.Add(d), false)
	}
	for _, c := range []struct {
		sleep, want time.Duration
	}{
		{time.Second, 0},
		{40 * time.Microsecond, 50 * time.Microsecond},
		{40 * time.Microsecond, 50 * time.Microsecond},
		{80 * time.Microsecond, 100 * time.Microsecond},
		{170 * time.Microsecond, most},
		{most + 1, most / 2},
		{time.Second, most / 4},
		{time.Second, most / 8},
		{time.Second, most / 16},
		{time.Second, 0},
		{time.Second, 0},
		{5 * time.Microsecond, firstSpin},
	} {
		if sleep(c.sleep); p.limit != c.want {
			t.Errorf("after a sleep of %v it polls for %v, want %v", c.sleep, p.limit, c.want)
		}
	}
	if !p.pays(func() bool { return true }) || p.spins.Load() != 1 || p.hits.Load() != 1 || p.limit != firstSpin {
		t.Error("a successful poll is not counted, or changes the poll limit")
	}
	p.limit = time.Hour
	if !p.pays(func() bool { return true }) || p.limit != time.Hour-time.Hour/early {
		t.Errorf("after a quick hit it polls for %v", p.limit)
	}
	p.limit = firstSpin
	before, less := p.limit, time.Duration(0)
	if runtime.GOMAXPROCS(0) == 1 {
		less = before // others run while it polls
	}
	p.began = clock.Machine()
	if p.slept(p.began.Add(5*time.Microsecond), true); p.limit != less {
		t.Errorf("after a sleep that its own process ended it polls for %v, want %v", p.limit, less)
	}
	off := newSpinner(0)
	if off.slept(clock.Machine(), false); off.pays(func() bool { return true }) || off.limit != 0 {
		t.Error("it polls although it may not")
	}
}

// A peer that sends at a steady rate does not occupy a processor: polls that take long each time are skipped for a while, too.
func TestLateHitsRest(t *testing.T) {
	p := newSpinner(DefaultSpin)
	p.waiting = func() bool { return false }
	p.preemptions = func() int64 { return 0 }
	for n := 0; p.rests == 0; n++ {
		p.limit = patience
		if !p.pays(func() bool { return clock.Machine().Sub(p.began) > 2*lateHit }) {
			t.Fatal("a poll without an end found nothing")
		}
		if n == allLooks {
			t.Fatal("it never rests")
		}
	}
	if p.limit != 0 {
		t.Errorf("it rests, and polls for %v", p.limit)
	}
}

// Polling ends if another thread had the processor. A gap between two polls alone, as an interrupt causes, does not end it.
func TestSpinnerLeavesTheProcessorToThreads(t *testing.T) {
	for _, c := range []struct {
		name     string
		preempts int64 // in each gap
		polls    int
		limit    time.Duration
	}{
		{"interrupts", 0, 100, time.Hour - time.Hour/early},
		{"a thread", 1, looksAtOnce + 1, 0},
	} {
		p := newSpinner(time.Hour)
		p.limit = time.Hour
		p.waiting = func() bool { return false }
		n, polls := int64(0), 0
		p.preemptions = func() int64 { return n }
		hit := p.pays(func() bool {
			if polls++; polls%looksAtOnce == 0 {
				for began := clock.Machine(); clock.Machine().Sub(began) <= preempted; {
				}
				n += c.preempts
			}
			return polls == 100
		})
		if polls != c.polls || p.limit != c.limit || hit != (c.limit != 0) {
			t.Errorf("%s: %d polls, hit %v, the next limit is %v; want %d polls, %v", c.name, polls, hit, p.limit, c.polls, c.limit)
		}
	}
}

// A goroutine that is ready to run does not wait until polling ends.
func TestSpinnerYieldsToGoroutines(t *testing.T) {
	p := newSpinner(patience)
	p.limit = patience
	p.preemptions = func() int64 { return 0 }
	var ran atomic.Bool
	begun := make(chan bool)
	for range runtime.GOMAXPROCS(0) - 1 { // they have all other processors
		go func() {
			begun <- true
			for !ran.Load() {
				runtime.KeepAlive(t)
			}
		}()
		<-begun
	}
	go ran.Store(true)
	const few = 10_000 // the spinner asks several times; without a yield it polls until the runtime preempts it, after 10 ms
	polls := 0
	if !p.pays(func() bool { polls++; return ran.Load() }) || polls > few {
		t.Errorf("a goroutine did not run within %d polls", polls)
	}
}

// The runtime's answer is about goroutines that wait for a processor, not about all goroutines.
func TestGoroutinesWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	waits := goroutinesWait()
	for n := 0; waits(); n++ { // goroutines of the test program may still run
		if runtime.Gosched(); n == 1_000_000 {
			t.Fatal("goroutines wait although no goroutine has work")
		}
	}
	for n := 0; ; n++ {
		done := make(chan bool)
		go close(done)
		seen := waits()
		<-done
		if seen {
			break
		}
		if n == 100 { // the runtime may preempt the test before it asks
			t.Fatal("a new goroutine does not count as waiting")
		}
	}
}
