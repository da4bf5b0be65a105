package xdp_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// withSys runs f on a thread in the side's namespace, where /sys shows that.
func (s *side) withSys(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread and its mounts end with this goroutine
		err := errors.Join(unix.Setns(int(s.ns), unix.CLONE_NEWNET), unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// wantKnobs compares the settings of the side's interface, "napi_defer_hard_irqs gro_flush_timeout".
func (s *side) wantKnobs(t *testing.T, when, want string) {
	t.Helper()
	s.withSys(t, func() error {
		// Through this thread's own view of the file system.
		a, errA := os.ReadFile("/sys/class/net/" + s.name + "/napi_defer_hard_irqs")
		b, errB := os.ReadFile("/sys/class/net/" + s.name + "/gro_flush_timeout")
		if got := strings.Join(strings.Fields(string(a)+string(b)), " "); got != want {
			t.Errorf("%s: the knobs are %q, want %q", when, got, want)
		}
		return errors.Join(errA, errB)
	})
}

func (s *side) setKnobs(t *testing.T, rounds, timeout int) {
	t.Helper()
	s.withSys(t, func() error {
		dir := "/sys/class/net/" + s.name
		return errors.Join(os.WriteFile(dir+"/napi_defer_hard_irqs", fmt.Append(nil, rounds), 0o644),
			os.WriteFile(dir+"/gro_flush_timeout", fmt.Append(nil, timeout), 0o644))
	})
}

// tuneNAPI tunes the side's interface, and returns it, too.
func (s *side) tuneNAPI() (*xdp.NAPITuning, netlink.Link, error) {
	nic, err := xdp.Inspect(s.name)
	if err != nil {
		return nil, nil, err
	}
	tuning, err := xdp.TuneNAPI(nic)
	if err != nil {
		return nil, nil, err
	}
	dev, err := s.nl.LinkByName(s.name)
	return tuning, dev, err
}

// TestKernelTuneNAPI changes the knobs and finds them restored, with a /sys of the namespace and with one of another; what a process left
// that was killed becomes the kernel's default.
func TestKernelTuneNAPI(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	const tuned = "2 200001"
	tune := func(what, before, after string) func() error {
		return func() error {
			nic, err := xdp.Inspect(l.a.name)
			if err != nil {
				return err
			}
			l.a.wantKnobs(t, what+", before", before)
			tuning, err := xdp.TuneNAPI(nic)
			if err != nil {
				return err
			}
			l.a.wantKnobs(t, what+", tuned", tuned)
			err = errors.Join(tuning.Close(), tuning.Close())
			l.a.wantKnobs(t, what+", restored", after)
			return err
		}
	}
	l.a.withSys(t, tune("own /sys", "0 0", "0 0"))
	l.a.setKnobs(t, 1, 5000)
	if err := l.a.in(t, tune("another /sys", "1 5000", "1 5000")); err != nil {
		t.Error(err)
	}
	l.a.setKnobs(t, 2, 200001)
	l.a.withSys(t, tune("leftover", tuned, "0 0"))
}

// TestKernelTuneNAPIOfAnInterfaceThatGoes: there is nothing to restore then.
func TestKernelTuneNAPIOfAnInterfaceThatGoes(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	if err := l.a.in(t, func() error {
		tuning, dev, err := l.a.tuneNAPI()
		if err != nil {
			return err
		}
		return errors.Join(l.a.nl.LinkDel(dev), tuning.Close())
	}); err != nil {
		t.Error(err)
	}
}

// TestKernelTuneNAPIOfAnInterfaceThatIsRenamed: it is the same interface, whose settings are restored, and not those of one that took its name.
func TestKernelTuneNAPIOfAnInterfaceThatIsRenamed(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPGenericMode)
	old := l.a.name
	try := func(fresh string) func() error {
		return func() error {
			tuning, dev, err := l.a.tuneNAPI()
			if err != nil {
				return err
			}
			l.a.name = fresh
			err = errors.Join(l.a.nl.LinkSetDown(dev), l.a.nl.LinkSetName(dev, fresh), l.a.nl.LinkSetUp(dev), tuning.Close())
			l.a.wantKnobs(t, "renamed to "+fresh, "1 5000")
			return err
		}
	}
	l.a.setKnobs(t, 1, 5000)
	l.a.withSys(t, try("renamed"))
	if err := l.a.in(t, try(old)); err != nil {
		t.Error(err)
	}
}

// TestKernelPollDriver polls in native mode, where veth has a receive loop, but does not tell the kernel which queue it serves: busy polling
// is said to be off, and polling does no harm.
func TestKernelPollDriver(t *testing.T) {
	l := newLab(t, 1500, 1, link.XDPDriverMode)
	a, b := l.a.open(t, xdp.Config{Mode: xdp.ModeCopy}), l.b.open(t, xdp.Config{Mode: xdp.ModeCopy, BusyPoll: true})
	if a.Info().BusyPoll || b.Info().BusyPoll {
		t.Errorf("busy polling: %t and %t, want neither: is there a receive loop now?", a.Info().BusyPoll, b.Info().BusyPoll)
	}
	f := &flow{t: t, from: a, to: b, poll: b.PollDriver}
	f.run([]int{60, 1514, 100, 700}, 2)
	drain(t, a)
	st, err := b.Stats()
	if err != nil || st.Polls == 0 || st.RxDropped+st.RxRingFull != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
