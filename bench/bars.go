package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Bar is a figure of several runs with its bound. The median is compared, because a single run depends on the state of the machine.
type Bar struct {
	Name      string
	Size, MTU int
	Datapath  string
	Want      string // "<=" or ">="
	Bound     float64
	Floor     float64   // zero in older reports
	Values    []float64 // of all runs, ascending
}

// Median returns the median, or the lower of the two middle values.
func (b *Bar) Median() float64 { return b.Quantile(0.5) }

// Quantile returns the value at a quantile.
func (b *Bar) Quantile(q float64) float64 { return b.Values[int(q*float64(len(b.Values)-1))] }

// Met reports whether the median meets the bound.
func (b *Bar) Met() bool { return meets(b.Median(), b.Want, b.Bound) }

// Margin returns how much better the median is than the bound, relative to the bound. It is negative if the median is worse.
func (b *Bar) Margin() float64 {
	if b.Bound == 0 {
		return 0
	}
	margin := b.Median()/b.Bound - 1
	if b.Want == "<=" {
		margin = -margin
	}
	return margin
}

// String returns the name of the figure.
func (b *Bar) String() string {
	s := b.Name
	if b.Size > 0 {
		s += fmt.Sprintf(" (%s, MTU %d)", FormatSize(b.Size), b.MTU)
	}
	if b.Datapath != "" {
		s += " over " + b.Datapath
	}
	return s
}

// Bars collects the figures of several runs that have a bound, in the order in which they appear in the first run.
func Bars(runs []*Report) (bars []Bar) {
	type key struct {
		name      string
		size, mtu int
		datapath  string
	}
	at := map[key]int{}
	for _, r := range runs {
		for _, x := range r.Ratios {
			if x.Bound == nil {
				continue
			}
			k := key{x.Name, x.Size, x.MTU, x.Datapath}
			i, ok := at[k]
			if !ok {
				i = len(bars)
				at[k] = i
				bars = append(bars, Bar{Name: x.Name, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath, Want: x.Want, Bound: *x.Bound})
			}
			if x.Floor != nil {
				bars[i].Floor = *x.Floor
			}
			bars[i].Values = append(bars[i].Values, x.Value)
		}
	}
	for i := range bars {
		slices.SortFunc(bars[i].Values, cmp.Compare)
	}
	return bars
}

// MissedBars returns an error with all bounds that medians miss, or nil.
func MissedBars(bars []Bar) error {
	var errs []error
	for i := range bars {
		if b := &bars[i]; !b.Met() {
			errs = append(errs, fmt.Errorf("%s is %.3g, want %s %.3g", b, b.Median(), b.Want, b.Bound))
		}
	}
	return errors.Join(errs...)
}

// MissedFloors returns an error with all figures of one run beyond their floors, or nil.
func (r *Report) MissedFloors() error {
	var errs []error
	for _, x := range r.Ratios {
		if x.Floor != nil && !meets(x.Value, x.Want, *x.Floor) {
			b := Bar{Name: x.Name, Size: x.Size, MTU: x.MTU, Datapath: x.Datapath}
			errs = append(errs, fmt.Errorf("%s is %.3g, want %s %.3g on any machine", &b, x.Value, x.Want, *x.Floor))
		}
	}
	return errors.Join(errs...)
}
