package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// TestBindings: the bindings that are tried on each interface, and the reason if zero-copy is not.
func TestBindings(t *testing.T) {
	usual := BindFacts{Datapath: Native, Single: true, MultiBuffer: true, queues: 1, deviceRing: 512, maxPacket: 1472}
	for _, c := range []struct {
		name    string
		change  func(*BindFacts)
		want    string // mode, +sg and +inplace of each attempt
		copying string
	}{
		{"a NIC", func(*BindFacts) {}, "zero-copy; copy+sg+inplace", ""},
		{"large packets", func(f *BindFacts) { f.Single, f.maxPacket = false, 8972 }, "zero-copy+sg+inplace; copy+sg+inplace", ""},
		{"generic mode", func(f *BindFacts) { f.Datapath = Generic }, "copy+sg+inplace", "always copies"},
		{"an old kernel", func(f *BindFacts) { f.Datapath, f.MultiBuffer = Generic, false }, "copy", "always copies"},
		{"a broker", func(f *BindFacts) { f.Brokered = true }, "copy+sg+inplace", "--zero-copy allows it"},
		{"a broker that allows it", func(f *BindFacts) { f.Brokered, f.Exposed = true, true }, "zero-copy; copy+sg+inplace", ""},
		{"a device that completes early", func(f *BindFacts) { f.completesEarly = true }, "zero-copy; copy+sg", ""},
		{"large rings", func(f *BindFacts) { f.deviceRing = 8192 }, "zero-copy; copy+sg+inplace", ""},
		{"large rings of many queues", func(f *BindFacts) { f.queues, f.deviceRing = 64, 8192 }, "copy+sg+inplace", "receive rings of 8192"},
	} {
		f := usual
		c.change(&f)
		var got []string
		ways := bindings(&f)
		for _, w := range ways {
			s := w.Mode.String()
			if w.MultiBuffer {
				s += "+sg"
			}
			if w.InPlace {
				s += "+inplace"
			}
			got = append(got, s)
			if most := sizesOf(f.queues).copying(); w.Mode == xdp.ModeCopy && w.Sizes != most {
				t.Errorf("%s: %+v in copy mode, want %+v", c.name, w.Sizes, most)
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if why := ways[0].Copying; !strings.Contains(why, c.copying) || (why == "") != (ways[0].Mode == xdp.ModeZeroCopy) {
			t.Errorf("%s: copies because %q, want %q", c.name, why, c.copying)
		}
	}
}

// TestStoppedProcessLeavesFrames: if a process stops, the frames that it holds must not empty the device's ring in zero-copy mode.
// This holds for every number of queues, packet size and ring size.
func TestStoppedProcessLeavesFrames(t *testing.T) {
	modes := map[xdp.Mode]int{}
	for queues := 1; queues <= MaxQueues; queues++ {
		for _, ring := range []int{0, 256, 512, 1024, 2048, 4096, 8192} {
			for _, packet := range []int{1472, 3500, 8972} {
				f := BindFacts{Datapath: Native, Single: packet < 3800, MultiBuffer: true, queues: queues, deviceRing: ring, maxPacket: packet}
				w := bindings(&f)[0]
				modes[w.Mode]++
				if w.Mode != xdp.ModeZeroCopy {
					continue
				}
				per := (packet + xdp.RxFrameBytes - 1) / xdp.RxFrameBytes
				kept := int(w.Sizes.RxRing) + RxBatch*per + xdp.RefillBatch
				if left := int(w.Sizes.RxFrames) - kept; left < ring || left < 256 {
					t.Errorf("%d queues, rings of %d, packets of %d: %d frames are left", queues, ring, packet, left)
				}
				if w.Sizes.FillRing < w.Sizes.RxFrames {
					t.Errorf("%d queues, rings of %d: %+v", queues, ring, w)
				}
				c := w.Sizes.Config()
				c.Ifindex, c.Mode, c.MultiBuffer = 1, w.Mode, w.MultiBuffer
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

// TestFirstThatBinds: if the driver has no zero-copy, or the limit of locked memory is too low, copy mode is used and the reason is
// reported. A queue that another program holds is not tried twice.
func TestFirstThatBinds(t *testing.T) {
	ways := func() []Binding { return []Binding{{Mode: xdp.ModeZeroCopy}, {Mode: xdp.ModeCopy}} }
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
		w, err := firstThatBinds(ways(), func(w *Binding) error {
			tried++
			return c.errs[w.Mode]
		})
		if !errors.Is(err, c.err) || tried != c.tried {
			t.Errorf("%s: %v after %d tries, want %v after %d", c.name, err, tried, c.err, c.tried)
		}
		if err == nil && (w.Mode != c.want || !strings.HasPrefix(w.Copying, c.copying) || (c.copying == "") != (w.Copying == "")) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}
