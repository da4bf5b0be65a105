package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/nd/ndmetrics"
)

// BenchmarkObserved measures the cost of snapshots: blocks of 64-byte Writes there and back between two polling adapters, alternately
// without snapshots and with far too many snapshots. The time of one snapshot gives the cost of ten snapshots a
// second. Noise would hide this cost if it were measured directly. An iteration is a block of each kind, so -benchtime 10x takes five seconds.
func BenchmarkObserved(b *testing.B) {
	for _, connections := range []int{1, 1000} {
		pair, _ := newPair(b, netlab.PairConfig{})
		p := newWatched(b, pair, connections)
		handler := ndmetrics.Handler(p.near.Adapter)
		request := httptest.NewRequest("GET", "/metrics", nil)
		for _, c := range []struct {
			name string
			look func()
		}{
			{"nothing", func() {}},
			{"snapshots", func() { _, _ = p.near.Adapter.Connections(), p.near.Adapter.Stats() }},
			{"metrics", func() { handler.ServeHTTP(httptest.NewRecorder(), request) }},
		} {
			b.Run(fmt.Sprintf("%s/connections=%d", c.name, connections), func(b *testing.B) { p.compareLooks(b, c.look) })
		}
		b.Run(fmt.Sprintf("capture/connections=%d", connections), p.compareCapture)
	}
}

const (
	blockTime = 200 * time.Millisecond
	lookEvery = 5 * time.Millisecond // from the end of one snapshot to the next
	// A process of a real-time class that keeps both cores busy all the time is stopped for 50 ms in a second.
	restBetween = 50 * time.Millisecond
	messageSize = 64
)

// watched is a ping-pong whose near side has its snapshots taken.
type watched struct {
	near, far *nd.Endpoint
	said      byte // mark of the last message
}

// newWatched connects two adapters so many times. The first connection transfers the bytes.
func newWatched(b *testing.B, pair *netlab.Pair, connections int) *watched {
	b.Helper()
	open := func(ns *netlab.Namespace, at netip.Addr) (a *nd.Adapter) {
		err := ns.Do(func() (err error) {
			a, err = nd.OpenAdapter(nd.AdapterConfig{Address: at, Datapath: nd.DatapathGeneric})
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := a.Close(); err != nil {
				b.Error(err)
			}
		})
		return a
	}
	near, far := open(pair.A, pair.AddrA.Addr()), open(pair.B, pair.AddrB.Addr())
	cfg := nd.EndpointConfig{Adapter: far, MemoryBytes: 2 * messageSize, Rights: nd.MRAllowRemoteWrite, Depth: 64}
	l, err := nd.Listen(netip.AddrPortFrom(pair.AddrB.Addr(), 9000), cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	p := &watched{}
	for i := range connections {
		accepted := make(chan error, 1)
		var there *nd.Endpoint
		go func() {
			var err error
			there, err = l.Accept(ctx)
			accepted <- err
		}()
		cfg.Adapter = near
		here, err := nd.Dial(ctx, netip.AddrPortFrom(pair.AddrB.Addr(), 9000), cfg)
		if err := errors.Join(err, <-accepted); err != nil {
			b.Fatalf("connection %d: %v", i, err)
		}
		if i == 0 {
			p.near, p.far = here, there
		}
	}
	return p
}

// compareLooks runs blocks with and without snapshots.
func (p *watched) compareLooks(b *testing.B, look func()) {
	var plain, other, looks []float64
	p.block(b) // warms up
	for b.Loop() {
		plain = append(plain, p.block(b))
		stop, ended := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					ended <- n
					return
				case <-time.After(lookEvery):
					look()
				}
			}
		}()
		other = append(other, p.block(b))
		close(stop)
		looks = append(looks, float64(<-ended))
		time.Sleep(restBetween)
	}
	without := quartile(plain, 2)
	for i := range other { // seconds that one snapshot costs
		other[i] = blockTime.Seconds() * (1 - without/other[i]) / looks[i]
	}
	for q, name := range map[int]string{1: "q1", 2: "median", 3: "q3"} {
		b.ReportMetric(100*10*quartile(other, q), name+"-%-at-10/s")
	}
	b.ReportMetric(quartile(other, 2)*1e6, "µs/look")
	b.ReportMetric(without, "ns/trip")
	b.ReportMetric(0, "ns/op")
}

// compareCapture runs blocks with and without a capture, whose reader discards packets.
func (p *watched) compareCapture(b *testing.B) {
	var plain, other []float64
	p.block(b) // warms up
	for b.Loop() {
		plain = append(plain, p.block(b))
		c, err := p.near.Adapter.StartCapture(nd.CaptureConfig{})
		if err != nil {
			b.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var k nd.CapturedPacket
			for c.Next(&k) == nil { // until it is stopped
			}
		}()
		other = append(other, p.block(b))
		c.Stop()
		<-ended
		time.Sleep(restBetween)
	}
	for q, name := range map[int]string{1: "q1", 2: "median", 3: "q3"} {
		b.ReportMetric(quartile(other, q)/quartile(plain, 2), name+"-times")
	}
	b.ReportMetric(quartile(plain, 2), "ns/trip")
	b.ReportMetric(0, "ns/op")
}

// quartile sorts all values and returns their first, second or third quartile.
func quartile(all []float64, q int) float64 {
	slices.Sort(all)
	return all[q*len(all)/4]
}

// block runs the ping-pong for blockTime and returns the nanoseconds of a round trip.
func (p *watched) block(b *testing.B) float64 {
	const batch = 64
	var over atomic.Bool
	ended := make(chan error, 1)
	go func(last byte) { ended <- p.answer(last, &over) }(p.said)
	trips, began := 0, time.Now()
	took := time.Duration(0)
	for took < blockTime {
		for range batch {
			p.said = next(p.said)
			if err := say(p.near, p.said); err != nil {
				b.Fatal(err)
			}
			await(p.near, p.said, &over)
		}
		trips += batch
		took = time.Since(began)
	}
	over.Store(true)
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return float64(took.Nanoseconds()) / float64(trips)
}

// next returns the mark of the message after the one with the mark last. Zero is the initial content of memory.
func next(last byte) byte { return max(last+1, 1) }

// answer answers every message after last until over is set.
func (p *watched) answer(last byte, over *atomic.Bool) error {
	for last = next(last); await(p.far, last, over); last = next(last) {
		if err := say(p.far, last); err != nil {
			return err
		}
	}
	return nil
}

// say writes a message with a mark at its end. The first half of the memory receives marks, and the second half sends them.
func say(e *nd.Endpoint, mark byte) error {
	e.Memory.Bytes()[2*messageSize-1] = mark
	return e.QueuePair.Write(0, []nd.SGE{e.Memory.SGE(messageSize, messageSize)}, e.Peer.Address, e.Peer.Token, nd.OpSilentSuccess)
}

// await polls until the mark has arrived, or over is set. It sometimes lets other goroutines run, like a program that shares its cores.
func await(e *nd.Endpoint, mark byte, over *atomic.Bool) bool {
	const polls = 16
	var res [8]nd.Result
	buf := e.Memory.Bytes()
	for n := 1; buf[messageSize-1] != mark; n++ {
		e.Queue.GetResults(res[:])
		if n%polls == 0 {
			if over.Load() {
				return false
			}
			runtime.Gosched()
		}
	}
	return true
}
