//go:build !race

// A simulation is one goroutine: there is nothing to race, and the detector makes it fifteen times slower.

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

// bar is what a figure of a world must keep to.
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

// worldSeeds returns how many seeds TestWorlds runs of each world. Few fit into a test run; make worlds runs more.
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

// TestWorlds is the scoreboard of congestion control: named networks, what flows make of them, and the bars that hold for each seed.
// It runs the quick ones once. With NDXDP_WORLDS it runs all of them with so many seeds, and prints each as soon as it is done;
// NDXDP_WORLD then chooses by a regular expression.
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

// missed lists the bars that a seed misses, with the first such seed.
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

// head returns the line above the rows.
func head() string {
	cells := make([]string, numFigures)
	for f, name := range figureNames {
		cells[f] = fmt.Sprintf("%*s", cellWidth, name)
	}
	return fmt.Sprintf("%-42s %s  missed", "world", strings.Join(cells, " "))
}

// row prints the median of each figure over the seeds, and the range where it is wide.
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

// figure is what is measured of a world.
type figure int

const (
	goodput  figure = iota // payload, of what the link carries in full packets
	fairness               // Jain's index of the flows' goodput
	standing               // median wait in front of the bottleneck, of the aim
	tail                   // the same, 99 of 100
	drops                  // packets lost in front of the bottleneck, of those sent there
	beside                 // goodput of one of our flows, of that of a CUBIC flow
	slowest                // time until the slowest flow is done, of the ideal time for all of them
	timeouts               // a second and flow
	numFigures
)

var figureNames = [numFigures]string{"goodput", "Jain", "queue/aim", "p99/aim", "drops", "beside CUBIC", "slowest/ideal", "time-outs"}

// score are the figures of a run; those that a world has not are zero.
type score [numFigures]float64
