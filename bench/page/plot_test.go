package page

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// figuresOf draws the sample sweep alone, and two copies of it side by side.
func figuresOf(t *testing.T) []Figure {
	t.Helper()
	var all []Figure
	for _, sources := range [][]Source{{{"one.json", sweep(t)}}, {{"a.json", sweep(t)}, {"b.json", sweep(t)}, {"c.json", sweep(t)}, {"d.json", sweep(t)}}} {
		figures, err := Figures(sources)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, figures...)
	}
	return all
}

// TestImagesOfTheDocumentation: each plot has both themes, and was drawn by the same code as the plots of the page.
func TestImagesOfTheDocumentation(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "img", "*-*.svg")) // plots; all other pictures are drawn by hand
	if err != nil || len(files) == 0 {
		t.Fatalf("no images: %v", err)
	}
	for _, name := range files {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{themesCSS(), plotCSS, `id="axes"`, `id="legend"`} {
			if !strings.Contains(string(svg), want) {
				t.Errorf("%s lacks %.60q: draw it again (make figures)", filepath.Base(name), want)
			}
		}
	}
}

// element is the part of an SVG file that the tests read.
type element struct {
	XMLName   xml.Name
	ID        string    `xml:"id,attr"`
	Class     string    `xml:"class,attr"`
	X         float64   `xml:"x,attr"`
	Y         float64   `xml:"y,attr"`
	Height    float64   `xml:"height,attr"`
	Font      float64   `xml:"font-size,attr"`
	D         string    `xml:"d,attr"`
	Transform string    `xml:"transform,attr"`
	Text      string    `xml:",chardata"`
	Inside    []element `xml:",any"`
}

func (e *element) find(id string) *element {
	for i := range e.Inside {
		if e.Inside[i].ID == id {
			return &e.Inside[i]
		}
	}
	return nil
}

// TestLegendsOutsideAxes: the legend is below the axes and their labels, and inside the picture.
func TestLegendsOutsideAxes(t *testing.T) {
	for _, f := range figuresOf(t) {
		var svg element
		if err := xml.Unmarshal(f.SVG, &svg); err != nil {
			t.Fatal(err)
		}
		axes, legend := svg.find("axes"), svg.find("legend")
		if axes == nil || legend == nil {
			t.Fatalf("%s has no axes or no legend", f.Name)
		}
		var left, top, bottom, right float64
		if _, err := fmt.Sscanf(axes.D, "M%f,%fV%fH%f", &left, &top, &bottom, &right); err != nil || left >= right || top >= bottom || right > plotWidth {
			t.Fatalf("%s: the axes are %q: %v", f.Name, axes.D, err)
		}
		for _, e := range svg.Inside { // labels along the axes belong to the axes
			if e.XMLName.Local == "text" {
				bottom = max(bottom, e.Y)
			}
		}
		entries := 0
		for _, e := range legend.Inside {
			if e.XMLName.Local != "text" {
				continue
			}
			entries++
			if e.Y-e.Font <= bottom || e.Y >= svg.Height {
				t.Errorf("%s: %q is at %g, the axes end at %g and the picture at %g", f.Name, e.Text, e.Y, bottom, svg.Height)
			}
			if end := e.X + textWidth(e.Text, e.Font); end > plotWidth {
				t.Errorf("%s: %q ends at %g, outside the picture", f.Name, e.Text, end)
			}
		}
		series := 0
		for _, e := range svg.Inside {
			if e.Class == "series" {
				series++
			}
		}
		if entries == 0 || entries != series {
			t.Errorf("%s: %d entries for %d lines", f.Name, entries, series)
		}
	}
}

// TestSweepsHaveTheirPoints: each measured size has a mark on each line.
func TestSweepsHaveTheirPoints(t *testing.T) {
	seen := 0
	for _, f := range figuresOf(t) {
		if !strings.HasSuffix(f.Name, "-size") && !strings.HasPrefix(f.Name, "bandwidth-") {
			continue
		}
		seen++
		var svg element
		if err := xml.Unmarshal(f.SVG, &svg); err != nil {
			t.Fatal(err)
		}
		for _, e := range svg.Inside {
			marks := 0
			for _, m := range e.Inside {
				if strings.HasPrefix(m.Transform, "translate(") {
					marks++
				}
			}
			if e.Class == "series" && marks != len(sweepSizes) {
				t.Errorf("%s: a line has %d points, want %d", f.Name, marks, len(sweepSizes))
			}
		}
	}
	if seen == 0 {
		t.Error("the sweep has no plot over sizes")
	}
}

// TestAxesFitTheData: all points are inside the axes, and at most a third of an axis is empty.
func TestAxesFitTheData(t *testing.T) {
	for _, r := range [][2]float64{{1.7, 12}, {2.2, 2.9}, {5, 5}, {1, 10}, {1000, 1000000}, {0.3, 8000}, {99.9, 1000}, {3, 3.01}, {0.001, 0.01}} {
		for name, a := range map[string]axis{"latency": latencyAxis(), "rate": rateAxis()} {
			from, to, ticks := a.fit(r[0], r[1], axesHeight)
			lowest, highest := a.share(r[0], from, to), a.share(r[1], from, to)
			if lowest < -1e-9 || highest > 1+1e-9 || math.IsNaN(lowest) || math.IsNaN(highest) {
				t.Errorf("%s: %v is outside of %g to %g", name, r, from, to)
			}
			if fills := highest - max(lowest, 0); name == "latency" && r[1]/r[0] >= 5 && fills < 0.6 {
				t.Errorf("latency: %v takes %.2f of %g to %g", r, fills, from, to)
			}
			if name == "rate" && highest < 0.6 {
				t.Errorf("rate: %v takes %.2f of 0 to %g", r, highest, to)
			}
			if name == "latency" && r[1]/r[0] < 2 && to/from > 3 {
				t.Errorf("latency: %v is drawn from %g to %g", r, from, to)
			}
			labels := 0
			for _, tick := range ticks {
				if tick.label != "" {
					labels++
				}
			}
			if labels < 2 || labels > 12 {
				t.Errorf("%s: %v has %d labels", name, r, labels)
			}
		}
	}
}

// TestLabelsKeepApart: no two labels of the horizontal axis touch, however many sizes and nines there are.
func TestLabelsKeepApart(t *testing.T) {
	const width = 380
	for name, a := range map[string]axis{"size": sizeAxis(), "tail": tailAxis()} {
		for highest := 2.0; highest <= 1<<30; highest *= 2 {
			from, to, ticks := a.fit(1, highest, width)
			end, labels := math.Inf(-1), 0
			for _, tick := range ticks {
				if tick.label == "" {
					continue
				}
				labels++
				x, half := width*a.share(tick.at, from, to), textWidth(tick.label, tickText)/2
				if x-half < end {
					t.Errorf("%s to %g: %q touches the label before it", name, highest, tick.label)
				}
				end = x + half
			}
			if labels < 2 {
				t.Errorf("%s to %g has %d labels", name, highest, labels)
			}
		}
	}
}

// luminance returns the relative luminance of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 24)
	if err != nil || len(colour) != 7 {
		t.Fatalf("%q is no colour", colour)
	}
	linear := func(c uint64) float64 {
		v := float64(c&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestContrast: text is readable and lines are visible in both themes, and all colours come from the themes.
func TestContrast(t *testing.T) {
	for name, theme := range map[string]theme{"light": light, "dark": dark} {
		for _, text := range []string{theme.ink, theme.soft, theme.bad, theme.good} {
			for _, behind := range []string{theme.paper, theme.panel} {
				if c := contrast(t, text, behind); c < 4.5 {
					t.Errorf("%s: text %s on %s has a contrast of %.1f, want 4.5", name, text, behind, c)
				}
			}
		}
		for _, line := range theme.seriesLines {
			if c := contrast(t, line, theme.paper); c < 3 {
				t.Errorf("%s: a line of %s has a contrast of %.1f, want 3", name, line, c)
			}
		}
	}
	for name, css := range map[string]string{"page": pageHTML, "plots": plotCSS} {
		for _, at := range strings.Split(css, ":")[1:] {
			if value := strings.TrimSpace(at); strings.HasPrefix(value, "#") || strings.HasPrefix(value, "rgb") {
				t.Errorf("the %s have a colour of their own: %.20s", name, value)
			}
		}
	}
}
