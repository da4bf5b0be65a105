package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/xdp"
)

// TestBindings: what is tried on which interface, and what is said where zero-copy is not.
func TestBindings(t *testing.T) {
	usual := bindFacts{rung: RungNative, single: true, multiBuffer: true, queues: 1, deviceRing: 512, maxPacket: 1472}
	for _, c := range []struct {
		name    string
		change  func(*bindFacts)
		want    string // mode, +sg and +inplace of each way
		copying string
	}{
		{"a NIC", func(*bindFacts) {}, "zero-copy; copy+sg+inplace", ""},
		{"large packets", func(f *bindFacts) { f.single, f.maxPacket = false, 8972 }, "zero-copy+sg+inplace; copy+sg+inplace", ""},
		{"generic mode", func(f *bindFacts) { f.rung = RungGeneric }, "copy+sg+inplace", "always copies"},
		{"an old kernel", func(f *bindFacts) { f.rung, f.multiBuffer = RungGeneric, false }, "copy", "always copies"},
		{"a broker", func(f *bindFacts) { f.brokered = true }, "copy+sg+inplace", "--zero-copy allows it"},
		{"a broker that allows it", func(f *bindFacts) { f.brokered, f.exposed = true, true }, "zero-copy; copy+sg+inplace", ""},
		{"a device that completes early", func(f *bindFacts) { f.completesEarly = true }, "zero-copy; copy+sg", ""},
		{"large rings", func(f *bindFacts) { f.deviceRing = 8192 }, "zero-copy; copy+sg+inplace", ""},
		{"large rings of many queues", func(f *bindFacts) { f.queues, f.deviceRing = 64, 8192 }, "copy+sg+inplace", "receive rings of 8192"},
	} {
		f := usual
		c.change(&f)
		var got []string
		ways := bindings(&f)
		for _, w := range ways {
			s := w.mode.String()
			if w.multiBuffer {
				s += "+sg"
			}
			if w.inPlace {
				s += "+inplace"
			}
			got = append(got, s)
			if most := sizesOf(f.queues).copying(); w.mode == xdp.ModeCopy && w.sizes != most {
				t.Errorf("%s: %+v in copy mode, want %+v", c.name, w.sizes, most)
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if why := ways[0].copying; !strings.Contains(why, c.copying) || (why == "") != (ways[0].mode == xdp.ModeZeroCopy) {
			t.Errorf("%s: copies because %q, want %q", c.name, why, c.copying)
		}
	}
}

// TestStoppedProcessLeavesFrames: whatever a process keeps that stops at the worst moment, the device's ring stays full in zero-copy
// mode, for every number of queues, packet and ring.
func TestStoppedProcessLeavesFrames(t *testing.T) {
	modes := map[xdp.Mode]int{}
	for queues := 1; queues <= MaxQueues; queues++ {
		for _, ring := range []int{0, 256, 512, 1024, 2048, 4096, 8192} {
			for _, packet := range []int{1472, 3500, 8972} {
				f := bindFacts{rung: RungNative, single: packet < 3800, multiBuffer: true, queues: queues, deviceRing: ring, maxPacket: packet}
				w := bindings(&f)[0]
				modes[w.mode]++
				if w.mode != xdp.ModeZeroCopy {
					continue
				}
				per := (packet + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes
				kept := int(w.sizes.rxRing) + rxDescs*per + xdp.RefillBatch
				if left := int(w.sizes.rxFrames) - kept; left < ring || left < 256 {
					t.Errorf("%d queues, rings of %d, packets of %d: %d frames are left", queues, ring, packet, left)
				}
				if w.sizes.fillRing < w.sizes.rxFrames {
					t.Errorf("%d queues, rings of %d: %+v", queues, ring, w)
				}
				c := w.sizes.config()
				c.Ifindex, c.Mode, c.MultiBuffer = 1, w.mode, w.multiBuffer
				if err := c.Validate(); err != nil {
					t.Errorf("%d queues: %v", queues, err)
				}
			}
		}
	}
	if modes[xdp.ModeZeroCopy] == 0 || modes[xdp.ModeCopy] == 0 {
		t.Errorf("%v", modes)
	}
}

// TestFirstThatBinds: a driver without zero-copy, or too low a limit of locked memory, gets copy mode and the reason is told; a queue that somebody holds is not tried twice.
func TestFirstThatBinds(t *testing.T) {
	ways := func() []binding { return []binding{{mode: xdp.ModeZeroCopy}, {mode: xdp.ModeCopy}} }
	refused := fmt.Errorf("bind zero-copy: %w", xdp.ErrNotSupported)
	locked := &xdp.Error{Op: "register 1 bytes of UMEM", Err: fmt.Errorf("%w: %w", xdp.ErrLockedMemory, unix.ENOBUFS)}
	for _, c := range []struct {
		name    string
		errs    map[xdp.Mode]error
		want    xdp.Mode
		err     error
		tried   int
		copying string
	}{
		{"zero-copy", nil, xdp.ModeZeroCopy, nil, 1, ""},
		{"refused", map[xdp.Mode]error{xdp.ModeZeroCopy: refused}, xdp.ModeCopy, nil, 2, "the driver refused zero-copy: bind zero-copy: not supported"},
		{"locked", map[xdp.Mode]error{xdp.ModeZeroCopy: locked}, xdp.ModeCopy, nil, 2, "zero-copy takes more memory to lock than this process may: no buffer space available: grant CAP_IPC_LOCK"},
		{"busy", map[xdp.Mode]error{xdp.ModeZeroCopy: xdp.ErrQueueBusy}, 0, xdp.ErrQueueBusy, 1, ""},
		{"forbidden", map[xdp.Mode]error{xdp.ModeZeroCopy: xdp.ErrPermission}, 0, xdp.ErrPermission, 1, ""},
		{"neither", map[xdp.Mode]error{xdp.ModeZeroCopy: refused, xdp.ModeCopy: xdp.ErrNoFrames}, 0, xdp.ErrNoFrames, 2, ""},
	} {
		tried := 0
		w, err := firstThatBinds(ways(), func(w *binding) error {
			tried++
			return c.errs[w.mode]
		})
		if !errors.Is(err, c.err) || tried != c.tried {
			t.Errorf("%s: %v after %d tries, want %v after %d", c.name, err, tried, c.err, c.tried)
		}
		if err == nil && (w.mode != c.want || !strings.HasPrefix(w.copying, c.copying) || (c.copying == "") != (w.copying == "")) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

// TestVethCopies opens native mode on a driver that has no zero-copy: the sockets copy, the kernel says so, and we say why.
func TestVethCopies(t *testing.T) {
	pair := netlabtest.Pair(t, netlab.PairConfig{Queues: 2})
	for rung, want := range map[Rung]string{RungNative: "refused zero-copy", RungGeneric: "always copies"} {
		must(t, pair.A.Do(func() error {
			d, err := Open(Config{Address: pair.AddrA.Addr(), Rung: rung, Arena: 1 << 16})
			if err != nil {
				return err
			}
			i := d.Info()
			if i.Socket.ZeroCopy || !i.Socket.MultiBuffer || !strings.Contains(i.Copying, want) {
				t.Errorf("%s: %+v", rung, i)
			}
			if _, id, ok := d.Alloc(4096); !ok || d.Release(id) != nil {
				t.Errorf("%s: no memory to send from", rung)
			}
			return d.Close()
		}))
	}
}
