package sleep

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/clock"
	"github.com/ndxdp/ndxdp/internal/host"
)

// Sleeper lets the goroutines of an engine sleep: in Wait until its socket has packets, and in Pause until a given time. It implements
// provider.Waiter.
//
// Wait parks the goroutine on the runtime's poller and not in a poll(2) of its own. A thread that blocks in a system call keeps its
// processor until the scheduler's monitor takes the processor away, up to 10 ms later.
//
// The runtime's poller watches an epoll instance of the sleeper with three members: the packet socket, a timer, and an event that Wake
// sets. The timer is needed because the runtime's own timers have a resolution of a millisecond while all threads sleep. No member is
// read. The members only signal, and ready checks the state. The event is always set, and is the first of the epoll's ready members, so
// the kernel's scan of the list ends there. So the kernel never polls an AF_XDP socket, which would run the socket's transmit loop.
//
// Rouse makes the waiter's deadline pass instead of setting the event. The runtime then runs the goroutine where Rouse was called, or on
// another idle processor, without a system call. Through the kernel the goroutine runs when a processor next asks the poller. If all
// processors are busy, that is up to 10 ms later. This is too late for a call that ended. It is right for a goroutine that will work for
// other goroutines, because these run first.
//
// The socket is a member only while goroutines sleep again and again. For a watched socket the kernel calls the poller with every packet,
// which cost a polling application 0.9 us of a 3 us half round trip. It stays a member from one sleep to the next, because adding and
// removing it costs more than staying.
type Sleeper struct {
	socks   []int // the packet socket, and the sockets that are read beside it
	epoll   int   // -1 once it is closed; guarded by mu, like file, timer and event
	file    *os.File
	raw     syscall.RawConn
	timer   int // -1 if a sandbox refuses it: then the runtime's deadlines are used, with a resolution of a millisecond
	event   int
	entry   unix.EpollEvent
	arrived func() bool        // the sockets have packets
	Glimpse func() bool        // arrived for a caller that polls often
	ready   func(uintptr) bool // the functions ready and soon, made once so that a sleep allocates nothing
	soon    func() bool        // over, by glimpse

	woken atomic.Bool  // set by Wake after the last Wait
	until atomic.Int64 // end of the Wait in progress, a clock.Time
	alarm clock.Time   // when the timer fires; zero after it has fired. Guarded by mu, like first
	first bool         // the runtime has not called ready yet in this sleep
	spin  spinner      // the waiter's, like monitor
	Dozes func(bool)   // called before and after each sleep; nil if nothing needs to know

	monitor monitor

	mu      sync.Mutex
	member  bool // the socket is
	waiting bool
	late    bool // Rouse was called, so the reader's deadline has passed
	waits   uint // so far

	tick     *time.Timer // ends a Pause
	reminded atomic.Bool
	paused   uint // value of waits at the last Pause
}

// New returns a Sleeper for a socket. arrived reports whether the socket has packets. Before a sleep it is polled for up to most.
func New(sock int, arrived func() bool, most time.Duration) (_ *Sleeper, err error) {
	s := &Sleeper{socks: []int{sock}, epoll: -1, timer: -1, event: -1, arrived: arrived, Glimpse: arrived, tick: time.NewTimer(time.Hour), spin: newSpinner(most), monitor: newMonitor()}
	s.tick.Stop()
	s.soon = func() bool { return s.ends(s.Glimpse) }
	s.ready = func(uintptr) bool {
		if s.Dozes != nil {
			s.Dozes(true) // before each check: a program that has woken the sleeper once does not wake it again
		}
		return s.over() || !s.rearm()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	err = unix.SetNonblock(s.epoll, true)
	s.file = os.NewFile(uintptr(s.epoll), "epoll of a packet socket")
	if err != nil {
		return nil, fmt.Errorf("make the epoll non-blocking: %w", err)
	}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, err
	}
	if s.event, err = unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make an event: %w", err)
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		if s.timer = -1; !host.NotOffered(err) {
			return nil, fmt.Errorf("make a timer: %w", err)
		}
	}
	for _, fd := range []int{s.event, s.timer} { // the event comes first: see Sleeper
		if fd < 0 {
			continue
		}
		if err := s.control(unix.EPOLL_CTL_ADD, fd); err != nil {
			return nil, fmt.Errorf("watch an event and a timer: %w", err)
		}
	}
	return s, nil
}

// Close closes the descriptors. Later waits do not sleep.
func (s *Sleeper) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoll = -1
	s.monitor.timer.Stop()
	if s.file != nil {
		err = s.file.Close()
	}
	for _, fd := range []*int{&s.event, &s.timer} {
		if *fd >= 0 {
			err = errors.Join(err, unix.Close(*fd))
			*fd = -1
		}
	}
	return err
}

// control changes the membership of a descriptor in the epoll. The caller holds mu, or no other goroutine has s yet.
func (s *Sleeper) control(op, fd int) error {
	s.entry = unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return unix.EpollCtl(s.epoll, op, fd, &s.entry)
}

// over reports whether there is a reason not to sleep.
func (s *Sleeper) over() bool { return s.ends(s.arrived) }

func (s *Sleeper) ends(arrived func() bool) bool {
	until := clock.Time(s.until.Load())
	return s.woken.Load() || arrived() || until != clock.Never && clock.Machine() >= until
}

// Wait implements provider.Waiter.
func (s *Sleeper) Wait(until clock.Time, spin bool) {
	s.until.Store(int64(until))
	if spared := s.soon() || spin && s.spin.pays(s.soon); !spared { // this also polls the sockets
		s.sleep(spin)
	} else if spin && s.woken.Load() {
		s.spin.vain()
	}
	s.woken.Store(false)
}

// sleep parks the goroutine until there is a reason not to sleep.
func (s *Sleeper) sleep(spun bool) {
	if !s.enter() {
		return
	}
	// Errors come only from Rouse, and from an epoll that is being closed. The caller checks the state and waits again.
	_ = s.raw.Read(s.ready)
	now := clock.Machine()
	s.monitor.awake(now)
	if s.Dozes != nil {
		s.Dozes(false)
	}
	if spun {
		s.spin.slept(now, s.woken.Load())
	}
	s.mu.Lock()
	s.waiting = false
	s.mu.Unlock()
}

// setAlarm sets the timer for the end of the Wait. A timer that is set for an earlier time is left as it is. A needless wake-up in one of
// many sleeps costs less than a system call in each sleep. The caller holds mu.
func (s *Sleeper) setAlarm() {
	until := clock.Time(s.until.Load())
	if until == clock.Never {
		return
	}
	now := clock.Machine()
	if s.alarm > now && s.alarm <= until {
		return
	}
	d := max(until.Sub(now), 1)
	if s.timer < 0 {
		if !s.late && s.file.SetReadDeadline(time.Now().Add(d)) == nil {
			s.alarm = until
		}
		return
	}
	setting := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if unix.TimerfdSettime(s.timer, 0, &setting, nil) == nil {
		s.alarm = until
	}
}

// enter sets the timer, and makes the socket a member if it is not. It returns false if the sleeper is closed.
func (s *Sleeper) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoll < 0 {
		return false
	}
	if s.late || s.timer < 0 {
		s.late = s.file.SetReadDeadline(time.Time{}) != nil
	}
	if s.timer < 0 {
		s.alarm = 0
	}
	s.setAlarm()
	s.first = true
	s.waits++
	s.member = s.member || s.join()
	s.waiting = s.member
	return s.member
}

// join makes the sockets members of the epoll. The caller holds mu.
func (s *Sleeper) join() bool {
	for i, sock := range s.socks {
		if s.control(unix.EPOLL_CTL_ADD, sock) == nil {
			continue
		}
		for _, sock := range s.socks[:i] {
			_ = s.control(unix.EPOLL_CTL_DEL, sock) // it is one
		}
		return false
	}
	return true
}

// Also adds a socket that wakes the sleeper, before any goroutine sleeps. arrived reports whether it has packets, and glimpse does so for
// a caller that polls often.
func (s *Sleeper) Also(sock int, arrived, glimpse func() bool) {
	before, glimpsed := s.arrived, s.Glimpse
	s.socks = append(s.socks, sock)
	s.arrived = func() bool { return before() || arrived() }
	s.Glimpse = func() bool { return glimpsed() || glimpse() }
}

// Wake implements provider.Waiter.
func (s *Sleeper) Wake() {
	if s.woken.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.event >= 0 { // after Close, the number may belong to another descriptor
		_, _ = unix.Write(s.event, wakeWord[:])
	}
}

// Rouse implements provider.Waiter.
func (s *Sleeper) Rouse() {
	s.woken.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && !s.late { // a goroutine that does not wait yet sets waiting before it checks woken
		s.late = s.file.SetReadDeadline(past) == nil
	}
}

// Shorten implements provider.Waiter.
func (s *Sleeper) Shorten(until clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiting { // the waiter has yet to set until, or still polls for packets
		s.woken.Store(true)
		return
	}
	s.until.Store(min(s.until.Load(), int64(until)))
	s.setAlarm()
}

// Asleep reports whether a waiter sleeps now.
func (s *Sleeper) Asleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// rearm sets the timer again if it fired before the end of the Wait. It returns false if the sleeper is closed.
func (s *Sleeper) rearm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoll < 0 {
		return false
	}
	if s.first { // the first call, before any signal
		s.first = false
		return true
	}
	if s.alarm.Sub(clock.Machine()) < alarmSlack {
		s.alarm = 0 // the timer may have been the signal
	}
	s.setAlarm()
	return true
}

// alarmSlack is the largest difference between the timer and the clock.
const alarmSlack = time.Millisecond

var wakeWord = [8]byte{1}

// past is a deadline in the past.
var past = time.Unix(1, 0)

// Pause implements provider.Waiter. If no goroutine slept since the last Pause, polling finds the packets, and the socket need not be
// watched.
func (s *Sleeper) Pause(d time.Duration) {
	s.mu.Lock()
	if s.member && !s.waiting && s.waits == s.paused {
		s.member = false
		for _, sock := range s.socks {
			_ = s.control(unix.EPOLL_CTL_DEL, sock) // it fails if the socket is not a member
		}
	}
	s.paused = s.waits
	s.mu.Unlock()
	if d >= 0 {
		s.tick.Reset(d)
		if s.reminded.Swap(false) {
			return
		}
	}
	<-s.tick.C
	s.reminded.Store(false)
}

// Remind implements provider.Waiter. Remind stores the request and then sets the timer. Pause sets the timer and then reads the request.
// So at least one of them sees what the other wrote, and no reminder is lost.
func (s *Sleeper) Remind(d time.Duration) {
	if d == 0 {
		s.reminded.Store(true)
	}
	s.tick.Reset(d)
}
