//go:build !race

// A simulation is one goroutine, so it has no data races, and the race detector makes it fifteen times slower.

package sim

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// bar is the limit that a figure of a world must respect.
type bar struct {
	figure      figure
	least, most float64 // most is zero for no bound
}

func (b bar) missed(s *score) bool {
	return s[b.figure] < b.least || b.most > 0 && s[b.figure] > b.most
}

func (b bar) String() string {
	switch {
	case b.most == 0:
		return fmt.Sprintf("%s >= %g", figureNames[b.figure], b.least)
	case b.least == 0:
		return fmt.Sprintf("%s <= %g", figureNames[b.figure], b.most)
	}
	return fmt.Sprintf("%s %g to %g", figureNames[b.figure], b.least, b.most)
}

// worldSeeds returns how many seeds TestWorlds runs for each world: few in a test run, and more with make worlds.
func worldSeeds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("NDXDP_WORLDS")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("NDXDP_WORLDS=%q: not a number of seeds", text)
	}
	return n
}

// TestWorlds is the scoreboard of congestion control: named networks, the figures of flows in them, and limits that hold for every
// seed. It runs the quick worlds once. With NDXDP_WORLDS it runs all worlds with that many seeds, and prints each as soon as it is
// done. NDXDP_WORLD selects worlds by a regular expression.
func TestWorlds(t *testing.T) {
	seeds, only := worldSeeds(t), regexp.MustCompile(os.Getenv("NDXDP_WORLD"))
	say := func(line string) { fmt.Println(line) }
	if seeds == 0 {
		say = func(line string) { t.Log(line) }
	}
	say(head())
	for _, w := range scenarios() {
		n := seeds
		if seeds == 0 && w.quick {
			n = 1
		}
		if n == 0 || !only.MatchString(w.name) {
			continue
		}
		scores := w.scores(n)
		missed := w.missed(scores)
		say(strings.TrimRight(fmt.Sprintf("%-42s %s  %s", w.name, row(scores), strings.Join(missed, ", ")), " "))
		if len(missed) > 0 {
			t.Errorf("%s: missed: %s", w.name, strings.Join(missed, ", "))
		}
	}
}

// missed lists the limits that a seed violates, with the first such seed.
func (w *scenario) missed(scores []score) (all []string) {
	for _, b := range w.bars {
		if i := slices.IndexFunc(scores, func(s score) bool { return b.missed(&s) }); i >= 0 {
			all = append(all, fmt.Sprintf("%v (seed %d: %.3g)", b, i+1, scores[i][b.figure]))
		}
	}
	return all
}

// scores runs a world with seeds from 1 on, on all cores.
func (w *scenario) scores(seeds int) []score {
	all := make([]score, seeds)
	next := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				all[i] = w.run(uint64(i + 1))
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return all
}

// cellWidth is the width of a column.
const cellWidth = 16

// head returns the header line of the table.
func head() string {
	cells := make([]string, numFigures)
	for f, name := range figureNames {
		cells[f] = fmt.Sprintf("%*s", cellWidth, name)
	}
	return fmt.Sprintf("%-42s %s  missed", "world", strings.Join(cells, " "))
}

// row prints the median of each figure over the seeds, and the range if it is wide.
func row(scores []score) string {
	cells := make([]string, numFigures)
	for f := range numFigures {
		var values []float64
		for i := range scores {
			values = append(values, scores[i][f])
		}
		slices.Sort(values)
		least, median, most := values[0], values[len(values)/2], values[len(values)-1]
		cell := "-"
		if most != 0 {
			cell = fmt.Sprintf("%.2g", median)
			if most-least > 0.1*median {
				cell = fmt.Sprintf("%.2g (%.2g-%.2g)", median, least, most)
			}
		}
		cells[f] = fmt.Sprintf("%*s", cellWidth, cell)
	}
	return strings.Join(cells, " ")
}

// figure is the kind of a measured value.
type figure int

const (
	goodput  figure = iota // payload, relative to the link's capacity in full packets
	fairness               // Jain's index of the flows' goodput
	standing               // median wait in the queue of the bottleneck, relative to aim
	tail                   // 99th percentile of that wait, relative to aim
	drops                  // packets lost at the bottleneck, relative to those sent there
	beside                 // goodput of one of our flows, relative to a CUBIC flow
	slowest                // time until the slowest flow has finished, relative to the ideal time for all
	timeouts               // for each second and flow
	numFigures
)

var figureNames = [numFigures]string{"goodput", "Jain", "queue/aim", "p99/aim", "drops", "beside CUBIC", "slowest/ideal", "time-outs"}

// score has the figures of a run; figures that the world does not have are zero.
type score [numFigures]float64
