package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ndxdp/ndxdp/nd"
)

// Kinds of a Registration.
const (
	RegisterMemory = "register" // memory of the program: RegisterMemory, Close
	AllocateMemory = "allocate" // memory of the adapter, sent without a copy: AllocateMemory, Close
)

// MaxRegistrationSize bounds the memory of a Registration. The arena bounds memory of the adapter (arenaBytes).
const MaxRegistrationSize = 256 << 20

// RegistrationSizes returns the default sizes, from a page to more than a huge page.
func RegistrationSizes() []int { return []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} }

// Registration is the cost of registering and deregistering memory.
type Registration struct {
	What       string   `json:"what"` // RegisterMemory or AllocateMemory
	Size       int      `json:"size"`
	Datapath   string   `json:"datapath"`
	Ops        uint64   `json:"ops"` // pairs of both calls
	Seconds    float64  `json:"seconds"`
	PerSecond  float64  `json:"per_second"` // pairs of both calls
	RegisterUS *Latency `json:"register_us"`
	CloseUS    *Latency `json:"close_us"`
}

// sane checks that the figures are complete.
func (x *Registration) sane() error {
	switch {
	case x.What != RegisterMemory && x.What != AllocateMemory, x.Datapath == "":
		return fmt.Errorf("%q over %q", x.What, x.Datapath)
	case x.Size < 1 || x.Size > MaxRegistrationSize:
		return fmt.Errorf("size %d is out of range: 1 to %d", x.Size, MaxRegistrationSize)
	case x.Ops == 0 || !(x.Seconds > 0) || !(x.PerSecond > 0):
		return fmt.Errorf("nothing was registered: %d times in %g s", x.Ops, x.Seconds)
	case x.RegisterUS == nil || x.RegisterUS.Min <= 0 || x.RegisterUS.P99 < x.RegisterUS.P50 || x.CloseUS == nil || x.CloseUS.P99 < x.CloseUS.P50:
		return errors.New("register_us or close_us is missing, or its percentiles are not in ascending order")
	}
	return nil
}

// Registrations measures both kinds of registration at each size for d, and calls each with each result. The adapter needs no peer.
func Registrations(ctx context.Context, cfg NDConfig, sizes []int, d time.Duration, each func(Registration)) (err error) {
	a, err := openAdapter(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	const flags = nd.MRAllowLocalWrite | nd.MRAllowRemoteRead | nd.MRAllowRemoteWrite
	for _, size := range sizes {
		buf := make([]byte, size)
		touch(buf)
		ways := map[string]func() (*nd.MemoryRegion, error){
			RegisterMemory: func() (*nd.MemoryRegion, error) { return a.RegisterMemory(buf, flags) },
			AllocateMemory: func() (*nd.MemoryRegion, error) { return a.AllocateMemory(size, flags) },
		}
		for _, what := range []string{RegisterMemory, AllocateMemory} {
			if what == AllocateMemory && size > arenaBytes {
				continue
			}
			x, err := measureRegistration(ctx, ways[what], d)
			if err != nil {
				return fmt.Errorf("%s %s: %w", what, FormatSize(size), err)
			}
			x.What, x.Size, x.Datapath = what, size, a.Datapath().Datapath.String()
			each(*x)
		}
	}
	return nil
}

// touch writes to every page of memory, so that no test includes page faults.
func touch(buf []byte) {
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1
	}
}

// measureRegistration makes and closes regions for d.
func measureRegistration(ctx context.Context, register func() (*nd.MemoryRegion, error), d time.Duration) (*Registration, error) {
	x, made, closed := &Registration{}, NewHistogram(), NewHistogram()
	begin := time.Now()
	for now := begin; x.Ops == 0 || now.Sub(begin) < d; {
		m, err := register()
		if err != nil {
			return nil, err
		}
		known := time.Now()
		if err := m.Close(); err != nil {
			return nil, err
		}
		end := time.Now()
		made.Record(known.Sub(now))
		closed.Record(end.Sub(known))
		if now = end; ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		x.Ops++
	}
	x.Seconds = time.Since(begin).Seconds()
	x.PerSecond = float64(x.Ops) / x.Seconds
	x.RegisterUS, x.CloseUS = made.Summary(1), closed.Summary(1)
	return x, nil
}
