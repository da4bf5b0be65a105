package xdp

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// duplicate returns another descriptor of the same file, as another process would get it.
func duplicate(t *testing.T, fd int) int {
	t.Helper()
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

func wantClosed(t *testing.T, what string, fd int) {
	t.Helper()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("%s: the descriptor was left open (%v)", what, err)
	}
}

func TestUMEMFromFD(t *testing.T) {
	cfg := UMEMConfig{RxFrames: 3, TxFrames: 2, ArenaBytes: 5000, Shared: true}
	u := newUMEM(t, cfg)
	file := duplicate(t, u.FD())
	other, err := UMEMFromFD(file, cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantClosed(t, "mapped", file)
	copy(u.Arena(), "from one")
	copy(other.Frame(FrameSize), "from the other")
	if got := string(other.Arena()[:8]); got != "from one" {
		t.Errorf("arena: %q", got)
	}
	if got := string(u.Bytes(FrameSize, 14)); got != "from the other" {
		t.Errorf("frame: %q", got)
	}
	// Neither process can truncate the memory of the other.
	if err := unix.Ftruncate(u.FD(), FrameSize); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrink: %v, want EPERM", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if got := string(u.Arena()[:8]); got != "from one" {
		t.Errorf("after the other one closed: %q", got)
	}
}

func TestUMEMFromFDRefuses(t *testing.T) {
	cfg := UMEMConfig{RxFrames: 3, TxFrames: 2, Shared: true}
	u := newUMEM(t, cfg)
	soft, err := unix.MemfdCreate("can shrink", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(soft, 5*FrameSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	longer := cfg
	longer.RxFrames++
	for _, c := range []struct {
		name string
		file int
		cfg  UMEMConfig
	}{
		{"another length", duplicate(t, u.FD()), longer},
		{"can shrink", soft, cfg},
		{"no memory", null, cfg},
		{"a negative arena", duplicate(t, u.FD()), UMEMConfig{ArenaBytes: -1}},
	} {
		if _, err := UMEMFromFD(c.file, c.cfg); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v, want ErrInvalidConfig", c.name, err)
		}
		wantClosed(t, c.name, c.file)
	}
}

// TestSocketFromFDRefuses opens a descriptor that is no AF_XDP socket, and an AF_XDP socket with an impossible configuration. No
// frame stays reserved.
func TestSocketFromFDRefuses(t *testing.T) {
	u := newUMEM(t, UMEMConfig{RxFrames: 2 * DefaultRxRing, TxFrames: DefaultTxRing})
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"no socket", Config{Ifindex: 1}},
		{"ring size", Config{Ifindex: 1, RxRing: 3}},
		{"no interface", Config{}},
	} {
		fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := SocketFromFD(u, c.cfg, fd, Info{}); err == nil {
			t.Errorf("%s: opened", c.name)
		}
		wantClosed(t, c.name, fd)
		rx, tx, err := u.reserve(&Socket{}, 2*DefaultRxRing, DefaultTxRing)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		u.mu.Lock()
		u.rx.give(rx)
		u.tx.give(tx)
		u.sockets = nil
		u.mu.Unlock()
	}
}
