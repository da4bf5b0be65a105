package lab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// long asks for everything; without it the short form runs.
var long = os.Getenv("NDXDP_LAB") == "long"

// rounds is how often a scenario may be repeated until a round meets all its bounds.
const rounds = 5

func TestMain(m *testing.M) {
	keepTheCores()
	os.Exit(m.Run())
}

// keepTheCores gives this process a scheduling group of its own, with the most weight, and where the kernel makes no groups its
// threads: the bounds are about the transport and not about what else the machine does. Callers that may not do without.
func keepTheCores() {
	_, _ = unix.Setsid() // fails if this process leads a group already, which is as good
	_ = os.WriteFile("/proc/self/autogroup", []byte("-20"), 0)
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads { // those that come later inherit it
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, -20)
		}
	}
}

// verdict is what one round measured, and which bounds it missed.
type verdict struct {
	figures string
	misses  []string
}

func (v *verdict) say(format string, args ...any) {
	v.figures += fmt.Sprintf(format, args...)
}

// want notes a bound that was missed.
func (v *verdict) want(met bool, format string, args ...any) {
	if !met {
		v.misses = append(v.misses, fmt.Sprintf(format, args...))
	}
}

// judge repeats a scenario until a round meets its bounds. What must hold in every round, such as the content of memory,
// the scenario checks itself.
func judge(t *testing.T, scenario func() *verdict) {
	t.Helper()
	var v *verdict
	for range rounds {
		v = scenario()
		t.Log(v.figures)
		if len(v.misses) == 0 {
			return
		}
		t.Log("missed: " + strings.Join(v.misses, "; "))
	}
	t.Errorf("no round of %d met all bounds", rounds)
}

// settle lets flows find their windows.
const settle = 200 * time.Millisecond

// sampleEvery is how often the queue is looked at.
const sampleEvery = 200 * time.Microsecond

// watchQueue returns how long a packet that arrived in the bottleneck would have waited, sampled for d and sorted: the bytes
// in the queue, as the kernel counts them, over the rate.
func (r *rig) watchQueue(t *testing.T, d time.Duration) []time.Duration {
	t.Helper()
	var waits []time.Duration
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		b, err := r.star.Backlog(0)
		must(t, err)
		waits = append(waits, time.Duration(b.Bytes)*time.Second/time.Duration(r.bottleneck.BytesPerSec))
	}
	slices.Sort(waits)
	return waits
}

// quantile is of sorted values, in thousandths.
func quantile(sorted []time.Duration, thousandths int) time.Duration {
	return sorted[(len(sorted)-1)*thousandths/1000].Round(time.Microsecond)
}

// mbits is bytes in a time, in Mb/s.
func mbits(bytes float64, in time.Duration) float64 { return bytes * 8 / in.Seconds() / 1e6 }

// capacity is the most payload that the bottleneck lets through, in Mb/s.
func (r *rig) capacity() float64 {
	return float64(r.bottleneck.BytesPerSec) * 8 / 1e6 * payload / frame
}
