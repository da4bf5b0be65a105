package sim_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/provider/sim"
)

var (
	seeds = flag.Uint64("sim.seeds", envUint("NDXDP_SIM_SEEDS", defaultSeeds), "how many seeds TestSimulation runs")
	seed  = flag.Uint64("sim.seed", envUint("NDXDP_SIM_SEED", 0), "the one seed to replay, with a trace; 0 for none")
	first = flag.Uint64("sim.first", 1, "the first seed")
)

func envUint(name string, def uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return def
}

// TestSimulation lets random applications work over a hostile network. A failure prints the command that replays it.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		report, err := sim.Run(*seed, sim.Options{Trace: os.Stdout})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", report)
		return
	}
	var total sim.Report
	for s := *first; s < *first+*seeds; s++ {
		report, err := sim.Run(s, sim.Options{})
		if err != nil {
			path := filepath.Join(t.ArtifactDir(), "trace-"+strconv.FormatUint(s, 10))
			if out, ferr := os.Create(path); ferr == nil {
				_, _ = sim.Run(s, sim.Options{Trace: out})
				out.Close()
			}
			t.Fatalf("%v\nreplay: go test ./provider/sim -run TestSimulation -sim.seed=%d", err, s)
		}
		total.Requests += report.Requests
		total.Receives += report.Receives
		total.Packets += report.Packets
		total.Retransmits += report.Retransmits
	}
	t.Logf("%d seeds: %d requests, %d receives, %d packets, %d of them again",
		*seeds, total.Requests, total.Receives, total.Packets, total.Retransmits)
}

// TestSameSeedSameWorld runs one seed twice and wants every event the same: otherwise no failure could be replayed.
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
