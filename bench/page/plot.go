package page

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes of a plot, in points. Two plots fit side by side on a page, and one on the screen of a telephone.
const (
	plotWidth  = 460
	plotMargin = 10 // left and right of the axes
	axesTop    = 54 // room for the title and the label of the vertical axis
	axesHeight = 200
	axesInset  = 8  // between the frame and the outermost points
	axesFoot   = 62 // from the axes to the middle of the legend's first row
	legendRow  = 20
	legendLine = 26 // length of a line's sample

	titleText, labelText, tickText = 15, 13, 12 // font sizes
	labelGap                       = 8          // between two labels
	maxMarks                       = 10         // of a line, because more would hide it
	maxLabelRunes                  = 40         // of an entry of the legend
	maxTitleRunes                  = 54
)

// textWidth estimates the width of a text. The reader's font is unknown, so it assumes a wide one.
func textWidth(s string, size float64) float64 { return 0.6 * size * float64(len([]rune(s))) }

// cut shortens a text from a report.
func cut(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}

// point is a point of a line; both coordinates are positive.
type point struct{ x, y float64 }

// series is one line of a plot.
type series struct {
	label  string
	what   string // name without the report; selects the colour and the shape
	file   int    // index of the report; selects the dashes
	rival  bool   // drawn thinner
	points []point
}

// usual are lines in most plots, which look the same in each.
var usual = map[string]int{
	"nd generic": 0, "nd native": 1, "nd udp": 2, "write_bw": 0, "read_bw": 1, "send_bw": 2, "raw": 3, "tcp": 4, "tcp_spin": 5, "nd tcx": 6,
}

var dashes = []string{"", "6 3", "2 3", "8 3 2 3"} // one for each possible report

// shapes are marks around 0,0, one for each colour.
var shapes = [seriesColours]string{
	"M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0Z", "M0,-4.2L4,3L-4,3Z", "M-3.2,-3.2H3.2V3.2H-3.2Z", "M0,-4.5L4.5,0L0,4.5L-4.5,0Z",
	"M0,4.2L4,-3L-4,-3Z", "M-4,-1.4H-1.4V-4H1.4V-1.4H4V1.4H1.4V4H-1.4V1.4H-4Z", "M-4.5,-1.8H4.5V1.8H-4.5Z",
}

// styles gives each line its colour: the usual one, or the first free one.
func styles(lines []series) map[string]int {
	of, taken := map[string]int{}, map[int]bool{}
	for _, s := range lines {
		if c, ok := usual[s.what]; ok {
			of[s.what], taken[c] = c, true
		}
	}
	for _, s := range lines {
		if _, ok := of[s.what]; ok {
			continue
		}
		c := 0
		for c < seriesColours && taken[c] {
			c++
		}
		of[s.what], taken[c] = c%seriesColours, true
	}
	return of
}

// plotCSS styles the classes of a plot. The background is painted, so that a reader with an unknown theme sees the default theme.
const plotCSS = `text{font-family:system-ui,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}.paper{fill:var(--paper)}` +
	`.grid{stroke:var(--line);stroke-width:1;fill:none}.frame{stroke:var(--soft);stroke-width:1;fill:none}` +
	`.nd{stroke-width:2.2;fill:none}.rival{stroke-width:1.3;fill:none}`

// drawing is the state while a plot is drawn.
type drawing struct {
	strings.Builder
	x, y              axis
	left, right       float64 // edges of the axes
	fromX, toX        float64
	fromY, toY        float64
	ticksX, ticksY    []tick
	colours           map[string]int
	legendTop, height float64
	legendAt          []point // position of each line's entry
}

// drawSVG draws the lines with title, axes and legend. There must be a line, and all numbers must be positive.
func drawSVG(title, alt string, x, y axis, lines []series) (svg []byte, height int) {
	d := &drawing{x: x, y: y, colours: styles(lines)}
	d.layOut(lines)
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" role="img" aria-label="%s">`+"\n",
		plotWidth, d.height, plotWidth, d.height, html.EscapeString(title))
	fmt.Fprintf(d, "<title>%s</title><desc>%s</desc>\n<style>\n%s%s", html.EscapeString(title), html.EscapeString(alt), themesCSS(), plotCSS)
	for i := range seriesColours {
		fmt.Fprintf(d, ".l%d{stroke:var(--c%d)}.m%d{fill:var(--c%d)}", i, i, i, i)
	}
	fmt.Fprintf(d, "\n</style>\n<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n", plotWidth, d.height)
	d.text(plotMargin, 22, "start", "", titleText, cut(title, maxTitleRunes))
	d.grid()
	// This project's line is drawn last, on top.
	order := slices.Clone(lines)
	slices.SortStableFunc(order, func(a, b series) int { return cmp.Compare(rank(b), rank(a)) })
	for _, s := range order {
		d.line(s)
	}
	d.legend(lines)
	d.WriteString("</svg>\n")
	return []byte(d.String()), int(d.height)
}

func rank(s series) int {
	if s.rival {
		return 1
	}
	return 0
}

// layOut fits the axes to the data and places the legend's entries.
func (d *drawing) layOut(lines []series) {
	low, high := point{math.Inf(1), math.Inf(1)}, point{}
	for _, s := range lines {
		for _, p := range s.points {
			low.x, low.y, high.x, high.y = min(low.x, p.x), min(low.y, p.y), max(high.x, p.x), max(high.y, p.y)
		}
	}
	d.fromY, d.toY, d.ticksY = d.y.fit(low.y, high.y, axesHeight)
	d.left, d.right = plotMargin, plotWidth-2*plotMargin
	for _, t := range d.ticksY {
		d.left = max(d.left, plotMargin+textWidth(t.label, tickText)+labelGap)
	}
	d.fromX, d.toX, d.ticksX = d.x.fit(low.x, high.x, d.right-d.left-2*axesInset)
	d.legendTop = axesTop + axesHeight + axesFoot - legendRow/2
	at := point{plotMargin, d.legendTop + legendRow/2}
	for _, s := range lines {
		width := legendLine + labelGap + textWidth(cut(s.label, maxLabelRunes), labelText) + 2*labelGap
		if at.x > plotMargin && at.x+width > plotWidth {
			at = point{plotMargin, at.y + legendRow}
		}
		d.legendAt = append(d.legendAt, at)
		at.x += width
	}
	d.height = at.y + legendRow/2 + plotMargin
}

// place returns the position of a data point in the plot.
func (d *drawing) place(p point) point {
	width := d.right - d.left - 2*axesInset
	return point{
		d.left + axesInset + width*d.x.share(p.x, d.fromX, d.toX),
		axesTop + axesHeight - axesHeight*d.y.share(p.y, d.fromY, d.toY),
	}
}

func (d *drawing) text(x, y float64, anchor, class string, size int, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s" font-size="%d">%s</text>`+"\n", x, y, anchor, class, size, html.EscapeString(s))
}

// grid draws the axes with their grid lines and labels.
func (d *drawing) grid() {
	const bottom = axesTop + axesHeight
	d.text(plotMargin, axesTop-12, "start", "soft", labelText, d.y.label)
	d.WriteString(`<path class="grid" d="`)
	for _, t := range d.ticksX {
		fmt.Fprintf(d, "M%.1f,%dV%d", d.place(point{t.at, d.toY}).x, axesTop, bottom)
	}
	for _, t := range d.ticksY {
		fmt.Fprintf(d, "M%.1f,%.1fH%.1f", d.left, d.place(point{d.toX, t.at}).y, d.right)
	}
	fmt.Fprintf(d, "\"/>\n<path id=\"axes\" class=\"frame\" d=\"M%.1f,%dV%dH%.1f\"/>\n", d.left, axesTop, bottom, d.right)
	for _, t := range d.ticksX {
		if t.label != "" {
			d.text(d.place(point{t.at, d.toY}).x, bottom+17, "middle", "soft", tickText, t.label)
		}
	}
	for _, t := range d.ticksY {
		if t.label != "" {
			d.text(d.left-5, d.place(point{d.toX, t.at}).y+4, "end", "soft", tickText, t.label)
		}
	}
	d.text((d.left+d.right)/2, bottom+36, "middle", "soft", labelText, d.x.label)
}

// line draws a line and marks some of its points, including the last one.
func (d *drawing) line(s series) {
	var path, marks strings.Builder
	c := d.colours[s.what]
	every := (len(s.points) + maxMarks - 1) / maxMarks
	if len(s.points) <= 2*maxMarks {
		every = 1
	}
	for i, p := range s.points {
		at := d.place(p)
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f,%.1f", command, at.x, at.y)
		if (len(s.points)-1-i)%every == 0 {
			fmt.Fprintf(&marks, `<path class="m%d" transform="translate(%.1f,%.1f)" d="%s"/>`, c, at.x, at.y, shapes[c])
		}
	}
	fmt.Fprintf(d, "<g class=\"series\">%s%s</g>\n", stroke(s, c, path.String()), &marks)
}

func stroke(s series, colour int, path string) string {
	class := "nd"
	if s.rival {
		class = "rival"
	}
	dash := ""
	if d := dashes[s.file%len(dashes)]; d != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, d)
	}
	return fmt.Sprintf(`<path class="%s l%d"%s d="%s"/>`, class, colour, dash, path)
}

// legend draws the legend below the axes.
func (d *drawing) legend(lines []series) {
	d.WriteString("<g id=\"legend\">\n")
	for i, s := range lines {
		at, c := d.legendAt[i], d.colours[s.what]
		d.WriteString(stroke(s, c, fmt.Sprintf("M%.1f,%.1fh%d", at.x, at.y, legendLine)))
		fmt.Fprintf(d, `<path class="m%d" transform="translate(%.1f,%.1f)" d="%s"/>`, c, at.x+legendLine/2, at.y, shapes[c])
		d.text(at.x+legendLine+labelGap, at.y+4.5, "start", "", labelText, cut(s.label, maxLabelRunes))
	}
	d.WriteString("</g>\n")
}
