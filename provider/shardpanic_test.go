package provider

import (
	"testing"
	"testing/synctest"
	"time"
)

// A panic inside an engine reaches only the goroutine that ran the engine. All others find the engine closed, not locked, and can
// then end it with everything that is pending.
func TestPanicInsideAnEngine(t *testing.T) {
	for _, run := range []struct {
		name string
		do   func(p *pair, s *Shard)
	}{
		{"Poll", func(_ *pair, s *Shard) {
			for range 2 * timerPolls {
				s.Poll()
			}
		}},
		{"Look", func(_ *pair, s *Shard) { s.Look() }},
		{"post", func(p *pair, s *Shard) { s.runFor(p.qp[0]) }},
		{"Ring", func(_ *pair, s *Shard) { s.Ring() }},
		{"Release", func(_ *pair, s *Shard) { s.Release() }},
		{"turn of Do", func(_ *pair, s *Shard) { s.Do(func(*Engine) {}) }},
		{"function of Do", func(_ *pair, s *Shard) { s.Do(func(*Engine) { panic(errBoom) }) }},
	} {
		t.Run(run.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := shards(t)
				defer closeAll(s)
				synctest.Wait() // the progress goroutine sleeps
				r := p.write(0, 0, 10)
				r.Flags = FlagDefer
				p.post(0, r)
				s[0].mu.Lock()
				e := s[0].engine
				boom := boomLink{e.link}
				e.link = boom
				e.out.CutOff(boom)
				e.received.CutOff(boom)
				s[0].mu.Unlock()
				if got := recovered(func() { run.do(p, s[0]) }); got != errBoom {
					t.Fatalf("the goroutine that ran the engine got %v, want its panic", got)
				}
				wantEnded(t, p, s[0])
			})
		})
	}
}

const errBoom = "boom"

// boomLink panics when the engine polls it for packets.
type boomLink struct{ Link }

func (boomLink) Ready() bool            { panic(errBoom) }
func (boomLink) Receive([]RxPacket) int { panic(errBoom) }
func (boomLink) Frames([]Frag) int      { panic(errBoom) }
func (boomLink) Transmit([]TxPacket)    { panic(errBoom) }
func (boomLink) Forget(Path)            { panic(errBoom) }
func (boomLink) Recycle([]uint64)       { panic(errBoom) }
func recovered(f func()) (got any) {
	defer func() { got = recover() }()
	f()
	return nil
}

// wantEnded ends everything of an engine that panicked, as the other users of the engine do.
func wantEnded(t *testing.T, p *pair, s *Shard) {
	t.Helper()
	if p.broken != 1 {
		t.Errorf("%d engines are reported as broken, want 1", p.broken)
	}
	var gone promise
	s.Do(func(*Engine) { p.must(func() Outcome { _, o := p.ctr[0].NotifyDisconnect(gone.finish); return o }()) })
	s.Poll()
	s.Look()
	s.Ring()
	s.Release()
	s.Do((*Engine).Shutdown)
	gone.must(t, OutcomeDeviceRemoved)
	if rs := p.results(0); len(rs) != 1 || rs[0].Outcome != OutcomeCanceled {
		t.Errorf("results %+v, want the request canceled", rs)
	}
	begin := time.Now()
	s.Close()
	if d := time.Since(begin); d > 0 {
		t.Errorf("Close took %v", d)
	}
}
