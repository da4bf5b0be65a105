package page

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ndxdp/ndxdp/bench"
)

// Width and height of a plot in points: two fit side by side on a page.
const (
	plotWidth  = 460
	plotHeight = 310
)

// Colours that people with any kind of colour vision tell apart (Okabe and Ito); shapes and dashes say the same without colour.
var colours = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, A: 0xff},
	color.RGBA{G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0x80, G: 0x70, A: 0xff},
	color.RGBA{R: 0x30, G: 0x90, B: 0xc8, A: 0xff},
	color.RGBA{A: 0xff},
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.TriangleGlyph{},
	draw.BoxGlyph{},
	draw.CrossGlyph{},
	draw.PlusGlyph{},
	draw.RingGlyph{},
	draw.PyramidGlyph{},
}

var dashes = [][]vg.Length{nil, {5, 3}, {1, 2}, {7, 2, 1, 2}}

// series is one line of a plot.
type series struct {
	label  string
	file   int // index of the report, which gives the dashes
	points plotter.XYs
}

// axis is how one axis of a plot is drawn.
type axis struct {
	label string
	scale plot.Normalizer
	ticks plot.Ticker
	zero  bool // begins at zero, so that lengths compare
}

// drawSVG draws the lines. All numbers must be positive.
func drawSVG(title string, x, y axis, lines []series) ([]byte, error) {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size, p.Title.Padding = 13, 8
	p.X.Label.Text, p.Y.Label.Text = x.label, y.label
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 0xdd}, color.Gray{Y: 0xdd}
	p.Add(grid)
	for i, s := range lines {
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return nil, fmt.Errorf("draw %s of %q: %w", s.label, title, err)
		}
		line.Color, line.Width, line.Dashes = colours[i%len(colours)], 1.5, dashes[s.file%len(dashes)]
		points.Color, points.Shape, points.Radius = line.Color, shapes[i%len(shapes)], 2.5
		p.Add(line, points)
		p.Legend.Add(s.label, line, points)
	}
	place(&p.X, x)
	place(&p.Y, y)
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, 2
	p.Legend.XOffs, p.Legend.YOffs, p.Legend.ThumbnailWidth = 8, -4, 28
	c := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.Crop(draw.New(c), 4, -16, 4, -6)) // the last label on the right reaches beyond the axis
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %q: %w", title, err)
	}
	return out.Bytes(), nil
}

// place sets the scale and leaves the legend its room above the lines, two thirds more than they need.
func place(a *plot.Axis, want axis) {
	a.Scale, a.Tick.Marker = want.scale, want.ticks
	if want.zero {
		a.Min, a.Max = 0, a.Max*1.6
		return
	}
	if a.Min == a.Max { // a single point has no range
		a.Min, a.Max = a.Min/2, a.Max*2
	}
	if want.label == latencyLabel {
		a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)))
		a.Max *= math.Pow(max(a.Max/a.Min, 10), 0.6)
	}
}

const latencyLabel = "µs (logarithmic)"

func latencyAxis() axis {
	return axis{latencyLabel, plot.LogScale{}, plot.TickerFunc(decades), false}
}

// decades marks 1, 2 and 5 of every power of ten, or the powers alone if they are many.
func decades(from, to float64) []plot.Tick {
	var ticks []plot.Tick
	steps := []float64{1, 2, 5}
	if to/from > 1e3 {
		steps = steps[:1]
	}
	for e := math.Floor(math.Log10(from)); e <= math.Ceil(math.Log10(to)); e++ {
		for _, m := range steps {
			if v := m * math.Pow(10, e); v >= from*0.999 && v <= to {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 12, 64)})
			}
		}
	}
	return ticks
}

// sizeAxis marks every power of four.
func sizeAxis() axis {
	ticks := plot.TickerFunc(func(from, to float64) []plot.Tick {
		var ticks []plot.Tick
		for n := 1; n <= bench.MaxSize; n *= 4 {
			if v := float64(n); v >= from*0.999 && v <= to*1.001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: bench.FormatSize(n)})
			}
		}
		return ticks
	})
	return axis{"message size", plot.LogScale{}, ticks, false}
}

// tailAxis spreads the tail: the distance to 100 % shrinks by a constant factor per step, as HdrHistogram's plots have it.
func tailAxis() axis {
	ticks := plot.TickerFunc(func(_, to float64) []plot.Tick {
		ticks := []plot.Tick{{Value: 1, Label: "0 %"}, {Value: 2, Label: "50 %"}}
		for v, nines := 10.0, "90"; v <= to && len(ticks) < 12; v *= 10 {
			ticks = append(ticks, plot.Tick{Value: v, Label: nines + " %"})
			switch nines {
			case "90":
				nines = "99"
			case "99":
				nines = "99.9"
			default:
				nines += "9"
			}
		}
		return ticks
	})
	return axis{"share of operations that were at least as fast", plot.LogScale{}, ticks, false}
}

func rateAxis() axis { return axis{"Gb/s", plot.LinearScale{}, plot.DefaultTicks{}, true} }
