package page

import (
	"math"
	"slices"
	"strconv"

	"github.com/ndxdp/ndxdp/bench"
)

// tick is a grid line. Without a label, only the line is drawn.
type tick struct {
	at    float64
	label string
}

// axis is the scale of one direction of a plot.
type axis struct {
	label string
	log   bool
	// fit returns the range that contains lowest to highest, and its ticks. Labels do not touch on an axis of the given width in
	// points.
	fit func(lowest, highest, width float64) (from, to float64, ticks []tick)
}

// share returns the position of v between from (0) and to (1).
func (a axis) share(v, from, to float64) float64 {
	if a.log {
		return math.Log(v/from) / math.Log(to/from)
	}
	return (v - from) / (to - from)
}

// Steps within a power of ten. The coarse steps are labelled. A range of less than one power uses the fine steps.
var (
	coarse = []float64{1, 2, 5}
	fine   = []float64{1, 1.5, 2, 3, 4, 5, 6, 8}
)

// manyPowers is the number of powers of ten from which only these are labelled.
const manyPowers = 1e3

func latencyAxis() axis {
	return axis{"µs (logarithmic)", true, func(lowest, highest, _ float64) (float64, float64, []tick) {
		steps := coarse
		if highest/lowest < 10 {
			steps = fine
		}
		around := decades(lowest, highest, steps)
		from, to := around[0], around[len(around)-1]
		var ticks []tick
		for _, v := range around {
			t := tick{at: v}
			if to/from <= manyPowers || isPower(v) {
				t.label = strconv.FormatFloat(v, 'g', 12, 64)
			}
			ticks = append(ticks, t)
		}
		return from, to, ticks
	}}
}

// decades returns the steps from the last one at or below lowest to the first one above highest.
func decades(lowest, highest float64, steps []float64) []float64 {
	var all []float64
	for e := math.Floor(math.Log10(lowest)); e <= math.Floor(math.Log10(highest))+1; e++ {
		for _, m := range steps {
			all = append(all, m*math.Pow(10, e))
		}
	}
	last := slices.IndexFunc(all, func(v float64) bool { return v > highest })
	first := 0
	for all[first+1] <= lowest {
		first++
	}
	return all[first : last+1]
}

func isPower(v float64) bool {
	e := math.Log10(v)
	return math.Abs(e-math.Round(e)) < 1e-9
}

// rateSteps is the largest number of steps of a rate's axis.
const rateSteps = 6

// rateAxis begins at zero, so that lengths can be compared.
func rateAxis() axis {
	return axis{"Gb/s", false, func(_, highest, _ float64) (float64, float64, []tick) {
		step := 0.0
		for e := math.Floor(math.Log10(highest)) - 1; step == 0; e++ {
			for _, m := range coarse {
				if s := m * math.Pow(10, e); highest <= rateSteps*s {
					step = s
					break
				}
			}
		}
		var ticks []tick
		n := math.Ceil(highest/step - 1e-9)
		for i := 0.0; i <= n; i++ {
			ticks = append(ticks, tick{i * step, strconv.FormatFloat(i*step, 'g', 6, 64)})
		}
		return 0, n * step, ticks
	}}
}

// sizeAxis has a line for each power of two, and as many labels as fit.
func sizeAxis() axis {
	return axis{"message size (logarithmic)", true, func(lowest, highest, width float64) (float64, float64, []tick) {
		if lowest == highest {
			lowest, highest = lowest/2, highest*2
		}
		var ticks []tick
		for n := 1; n <= bench.MaxSize; n *= 2 {
			if v := float64(n); v >= lowest*0.999 && v <= highest*1.001 {
				ticks = append(ticks, tick{v, bench.FormatSize(n)})
			}
		}
		stride := 1
		for !fitEvery(ticks, stride, width/math.Log2(highest/lowest)) {
			stride++
		}
		for i := range ticks {
			if i%stride != 0 {
				ticks[i].label = ""
			}
		}
		return lowest, highest, ticks
	}}
}

// fitEvery reports whether the labels of every n-th tick have the given distance.
func fitEvery(ticks []tick, stride int, apart float64) bool {
	for i := stride; i < len(ticks); i += stride {
		if (textWidth(ticks[i-stride].label, tickText)+textWidth(ticks[i].label, tickText))/2+labelGap > apart*float64(stride) {
			return false
		}
	}
	return true
}

// maxNines bounds the ticks of a tail, because no test has so many operations.
const maxNines = 12

// tailAxis stretches the tail: each step reduces the distance to 100 % by a constant factor, as in plots of HdrHistogram.
func tailAxis() axis {
	return axis{"share of operations that were at least as fast", true, func(_, highest, width float64) (float64, float64, []tick) {
		highest = max(highest, 2)
		ticks := []tick{{1, "0 %"}, {2, "50 %"}}
		for v, nines := 10.0, "90"; v <= highest && len(ticks) < maxNines; v *= 10 {
			ticks = append(ticks, tick{v, nines + " %"})
			switch nines {
			case "90":
				nines = "99"
			case "99":
				nines = "99.9"
			default:
				nines += "9"
			}
		}
		free := math.Inf(-1) // where the last label ends
		for i, t := range ticks {
			x, half := width*math.Log(t.at)/math.Log(highest), textWidth(t.label, tickText)/2
			if x-half < free {
				ticks[i].label = ""
				continue
			}
			free = x + half + labelGap
		}
		return 1, highest, ticks
	}}
}
