package xdp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestConfigDefaults(t *testing.T) {
	c := Config{Ifindex: 1}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.RxRing != 0 {
		t.Error("Validate changed its receiver")
	}
	c.setDefaults()
	want := Config{
		Ifindex: 1, RxRing: 4096, FillRing: 8192, TxRing: 4096, CompletionRing: 4096,
		RxFrames: 8192, TxFrames: 4096, SendBuffer: 64 << 20, BindTimeout: 2 * time.Second,
	}
	if c != want {
		t.Errorf("defaults\n got %+v\nwant %+v", c, want)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Ifindex":        {},
		"Mode":           {Ifindex: 1, Mode: 9},
		"RxRing":         {Ifindex: 1, RxRing: 100},
		"FillRing":       {Ifindex: 1, FillRing: 3},
		"TxRing":         {Ifindex: 1, TxRing: 1 << 31},
		"CompletionRing": {Ifindex: 1, CompletionRing: 12},
		"RxFrames":       {Ifindex: 1, RxRing: 64, RxFrames: 64},
		"TxBudget":       {Ifindex: 1, TxBudget: 8},
		"SendBuffer":     {Ifindex: 1, SendBuffer: -1},
		"BindTimeout":    {Ifindex: 1, BindTimeout: -1},
	} {
		err := cfg.Validate()
		if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), ": "+field+" ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (&Config{Ifindex: 1, TxRing: 64, TxBudget: 65}).Validate(); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("budget of more than the TX ring: %v", err)
	}
	small := Config{Ifindex: 1, MultiBuffer: true, TxRing: 16, TxFrames: 16}
	if err := small.Validate(); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("TX ring shorter than a packet: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	s := &Socket{cfg: Config{Ifindex: 7, Queue: 3}}
	for errno, sentinel := range map[unix.Errno]error{
		unix.EBUSY:        ErrQueueBusy,
		unix.EPERM:        ErrPermission,
		unix.EAFNOSUPPORT: ErrNotSupported,
		unix.EOPNOTSUPP:   ErrNotSupported,
	} {
		err := s.fail("bind copy", errno)
		if !errors.Is(err, sentinel) || !errors.Is(err, errno) {
			t.Errorf("%v is not %v and its errno", err, sentinel)
		}
		if !strings.HasPrefix(err.Error(), "xdp: bind copy (interface index 7, queue 3): ") {
			t.Errorf("text %q", err)
		}
	}
}
