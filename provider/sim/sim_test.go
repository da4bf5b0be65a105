package sim_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider/sim"
	"github.com/ndxdp/ndxdp/wire"
)

var (
	seeds    = flag.Uint64("sim.seeds", envUint("NDXDP_SIM_SEEDS", defaultSeeds), "how many seeds TestSimulation runs")
	seed     = flag.Uint64("sim.seed", envUint("NDXDP_SIM_SEED", 0), "the one seed to replay, with a trace; 0 for none")
	first    = flag.Uint64("sim.first", 1, "the first seed")
	soak     = flag.Bool("sim.soak", false, "run seeds until stopped")
	hosts    = flag.Int("sim.hosts", 0, "at most so many hosts; 0 for no limit")
	engines  = flag.Int("sim.engines", 0, "at most so many engines of a host; 0 for no limit")
	sessions = flag.Int("sim.sessions", 0, "at most so many sessions; 0 for no limit")
	requests = flag.Int("sim.requests", 0, "at most so many requests of each side of a session; 0 for no limit")
	plain    = flag.Bool("sim.plain", false, "no connection is encrypted")
	without  = flag.String("sim.without", "", "faults that do not happen, with commas between them")
)

// Every fault must occur in a run of this many seeds.
const everyFault = 2000

func envUint(name string, def uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return def
}

func options(t *testing.T) sim.Options {
	t.Helper()
	faults, err := sim.ParseFaults(*without)
	if err != nil {
		t.Fatal(err)
	}
	return sim.Options{Hosts: *hosts, Engines: *engines, Sessions: *sessions, Requests: *requests, Without: faults, Plain: *plain}
}

// fleet runs worlds on all cores, one world on each core at a time.
type fleet struct {
	t     *testing.T
	next  atomic.Uint64
	last  uint64 // the first seed not to run
	mu    sync.Mutex
	done  uint64
	total sim.Report
	err   error
	bad   uint64 // the seed that failed with err
}

func (f *fleet) run(o sim.Options) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are short
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := f.next.Add(1) - 1; s < f.last; s = f.next.Add(1) - 1 {
				report, err := sim.Run(s, o)
				f.mu.Lock()
				f.done++
				f.total.Add(&report)
				if err != nil && (f.err == nil || s < f.bad) {
					f.err, f.bad = err, s
					f.next.Store(f.last)
				}
				f.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// summary returns the table that is printed after a run.
func (f *fleet) summary() string {
	r := &f.total
	return fmt.Sprintf("%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12d\n%-14s %12v\n%v",
		"seeds", f.done, "hosts", r.Hosts, "engines", r.Engines, "sessions", r.Sessions, "messages", r.Requests, "packets", r.Packets, "sent again", r.Retransmits, "relayed", r.Relayed, "moved", r.Moved, "key updates", r.KeyUpdates,
		"updates lost", r.Met.LostUpdates, "SHAKE lost", r.Met.LostFragments, "SHAKE again", r.Met.RepeatedShakes, "sealed, wrong", r.Met.SpoiltSealed,
		"by lanes", r.Bulk, "lanes proven", r.BulkProven, "lanes left", r.BulkLeft, "long packets", r.LongProven, "given up", r.LongLeft,
		"virtual time", r.Virtual.Round(time.Second), &r.Happened)
}

// report fails the test with the smallest world that fails, and the command that replays it.
func (f *fleet) report(o sim.Options) {
	f.t.Helper()
	if f.err == nil {
		return
	}
	small := sim.Shrink(f.bad, o, 60)
	path := filepath.Join(f.t.ArtifactDir(), "trace-"+strconv.FormatUint(f.bad, 10))
	out, err := os.Create(path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	small.Trace = out
	_, smallErr := sim.Run(f.bad, small)
	f.t.Fatalf("%v\n\nas small as it gets: %v\n\nreplay: go test ./provider/sim -run '^%s$' -sim.seed=%d\nreplay the small one: with %s",
		f.err, smallErr, f.t.Name(), f.bad, small.Flags())
}

// TestSimulation runs random applications over a hostile network. A failure prints the command that replays it.
func TestSimulation(t *testing.T) {
	o := options(t)
	if *soak {
		runForever(t, o)
		return
	}
	if *seed != 0 {
		replay(t, o)
		return
	}
	f := &fleet{t: t, last: *first + *seeds}
	f.next.Store(*first)
	f.run(o)
	f.report(o)
	t.Logf("\n%s", f.summary())
	if *seeds < everyFault || *without != "" {
		return
	}
	if f.total.FastRegistered == 0 {
		t.Error("no fast registration succeeded")
	}
	if f.total.Streams == 0 {
		t.Error("no world had more messages than truncated numbers can tell apart")
	}
	if d := &f.total.Drops; f.total.KeyUpdates == 0 || d[wire.DropTag] == 0 || d[wire.DropReplay] == 0 || d[wire.DropGeneration] == 0 || d[wire.DropPlain] == 0 || d[wire.DropShake] == 0 {
		t.Errorf("%d key updates, and of the packets of encrypted connections %d had a wrong tag, %d were repeated, %d had a key that was not used, %d were in plain, %d contradicted the handshake",
			f.total.KeyUpdates, d[wire.DropTag], d[wire.DropReplay], d[wire.DropGeneration], d[wire.DropPlain], d[wire.DropShake])
	}
	if m := f.total.Met; f.total.Handshakes == 0 || f.total.HandshakesFailed == 0 || m.LostFragments == 0 || m.RepeatedShakes == 0 || m.LostUpdates == 0 || m.SpoiltSealed == 0 {
		t.Errorf("%d ends of TLS handshakes succeeded, and %d failed; %+v", f.total.Handshakes, f.total.HandshakesFailed, m)
	}
	if f.total.Relayed == 0 || f.total.Moved == 0 {
		t.Errorf("%d packets went from one engine to another, and %d connections", f.total.Relayed, f.total.Moved)
	}
	if f.total.Bulk == 0 || f.total.BulkProven == 0 || f.total.BulkLeft == 0 {
		t.Errorf("%d packets came by bulk paths, which were confirmed %d times and left %d times", f.total.Bulk, f.total.BulkProven, f.total.BulkLeft)
	}
	for fault, times := range f.total.Happened {
		if times == 0 {
			t.Errorf("%v never happened", sim.Fault(fault))
		}
	}
}

// replay runs one seed with a trace.
func replay(t *testing.T, o sim.Options) {
	o.Trace = os.Stdout
	report, err := sim.Run(*seed, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v\n%v", report, &report.Happened)
}

// runForever runs seeds, starting at the value of the clock, until one fails.
func runForever(t *testing.T, o sim.Options) {
	start := uint64(time.Now().UnixNano())
	fmt.Printf("seeds from %d on\n", start)
	f := &fleet{t: t, last: ^uint64(0)}
	f.next.Store(start)
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	go func() {
		for range tick.C {
			f.mu.Lock()
			fmt.Printf("%d seeds, %d messages, %d packets, virtual time %v\n", f.done, f.total.Requests, f.total.Packets, f.total.Virtual.Round(time.Second))
			f.mu.Unlock()
		}
	}()
	f.run(o)
	f.report(o)
}

// TestSameSeedSameWorld runs one seed twice and compares all events: if they differed, no failure could be replayed.
func TestSameSeedSameWorld(t *testing.T) {
	for s := uint64(1); s < 6; s++ {
		var traces [2]bytes.Buffer
		var reports [2]sim.Report
		for i := range traces {
			reports[i], _ = sim.Run(s, sim.Options{Trace: &traces[i]})
		}
		if reports[0] != reports[1] || !bytes.Equal(traces[0].Bytes(), traces[1].Bytes()) {
			t.Fatalf("seed %d did two things:\n%+v\n%+v", s, reports[0], reports[1])
		}
	}
}
