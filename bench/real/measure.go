package main

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"time"
)

// Durations are counted in histogram buckets, called classes. Each power of two is divided into 32 classes, so that a class is 3 % wide.
const (
	classBits = 5
	classes   = 1 << classBits
	octaves   = 42 // up to 19 hours
)

// latencies is a distribution of durations. It is small, so that it does not affect garbage collection.
type latencies struct {
	counts [octaves * classes]uint32
	n      uint64
}

// classOf returns the index of the histogram bucket for a duration.
func classOf(d time.Duration) int {
	v := uint64(max(d, 1))
	shift := max(bits.Len64(v)-classBits-1, 0)
	return min(shift*classes+int(v>>shift), octaves*classes-1)
}

// middleOf returns a duration in the middle of a bucket.
func middleOf(class int) time.Duration {
	if class < 2*classes {
		return time.Duration(class)
	}
	shift := class/classes - 1
	return time.Duration((uint64(class-shift*classes)<<1 + 1) << shift >> 1)
}

func (l *latencies) record(d time.Duration) {
	l.counts[classOf(d)]++
	l.n++
}

func (l *latencies) add(o *latencies) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.n += o.n
}

// quantile returns the duration that the share q of all durations does not exceed, in microseconds.
func (l *latencies) quantile(q float64) float64 {
	left := uint64(q * float64(l.n))
	for class, n := range l.counts {
		if uint64(n) > left {
			return middleOf(class).Seconds() * 1e6
		}
		left -= uint64(n)
	}
	return 0
}

// work repeats the calls of a load for d, and each at least once.
func work(l *load, d time.Duration) (*latencies, error) {
	if len(l.calls) == 0 {
		time.Sleep(d)
		return &latencies{}, nil
	}
	parts := make([]latencies, len(l.calls))
	errs := make([]error, len(l.calls))
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i, call := range l.calls {
		wg.Go(func() { errs[i] = repeat(call, end, &parts[i]) })
	}
	wg.Wait()
	all := &latencies{}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("caller %d: %w", i, err)
		}
		all.add(&parts[i])
	}
	return all, nil
}

func repeat(call func() error, end time.Time, l *latencies) error {
	for last := time.Now(); ; {
		if err := call(); err != nil {
			return err
		}
		now := time.Now()
		l.record(now.Sub(last))
		if last = now; !now.Before(end) {
			return nil
		}
	}
}

// collections is the number of garbage collections in memoryUse, because the first ones only release pools and stacks of ended
// goroutines.
const collections = 4

// memoryUse returns the bytes of heap and stacks in use.
func memoryUse() uint64 {
	for range collections {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
