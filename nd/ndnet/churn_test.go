package ndnet

import (
	"errors"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
)

// cost is what a process and its adapters have spent: goroutines started, packets sent and objects allocated.
type cost struct{ goroutines, packets, allocations uint64 }

func spent(n [2]*Network) cost {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(s)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{s[0].Value.Uint64(), n[0].adapter.Stats().Packets.Out + n[1].adapter.Stats().Packets.Out, m.Mallocs}
}

// TestCostOfAConnection bounds what a connection for one request costs, both ends together. The cheapest of many connections counts: a
// busy machine repeats packets, and sends acknowledgements alone.
func TestCostOfAConnection(t *testing.T) {
	if raceEnabled {
		t.Skip("needs a build without the race detector, under which sync.Pool drops objects at random")
	}
	n := networks(t, Config{})
	l, err := n[1].Listen("nd", ":0")
	must(t, err)
	served := make(chan error, 1)
	serve := func(request []byte) error {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, err = io.ReadFull(c, request)
		_, answered := c.Write(request)
		_, ended := c.Read(request)
		if errors.Is(ended, io.EOF) {
			ended = nil
		}
		return errors.Join(err, answered, ended, c.Close())
	}
	const times, size = 100, 64
	go func() {
		request := make([]byte, size)
		for range times {
			served <- serve(request)
		}
	}()
	request := make([]byte, size)
	least := cost{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	for range times {
		before := spent(n)
		c, err := n[0].Dial("nd", l.Addr().String())
		must(t, err)
		_, err = c.Write(request)
		must(t, err)
		_, err = io.ReadFull(c, request)
		must(t, errors.Join(err, c.Close(), <-served))
		after := spent(n)
		least.goroutines = min(least.goroutines, after.goroutines-before.goroutines)
		least.packets = min(least.packets, after.packets-before.packets)
		least.allocations = min(least.allocations, after.allocations-before.allocations)
	}
	if most := (cost{goroutines: 1, packets: 12, allocations: 140}); least.goroutines > most.goroutines || least.packets > most.packets ||
		least.allocations > most.allocations {
		t.Errorf("a connection costs %+v, want at most %+v", least, most)
	}
	t.Logf("%+v", least)
	must(t, l.Close())
}
