package page

import (
	"fmt"
	"strings"
)

// theme is a set of colours, as #rrggbb. Text has a contrast of at least 4.5 to 1 on paper and panel, and lines of plots at least 3
// to 1 on paper (WCAG 2.2, 1.4.3 and 1.4.11).
type theme struct {
	ink, soft   string // text, and less important text
	paper       string // behind text and plots
	panel       string // behind tiles and heads of tables
	line        string // borders and grids, which may be faint
	bad, good   string
	seriesLines [seriesColours]string
}

// seriesColours is the number of lines of a plot with different colours. Shapes and dashes distinguish lines without colour.
const seriesColours = 7

// Colours for all kinds of colour vision, after Okabe and Ito, darker on white and lighter on black.
var (
	light = theme{
		ink: "#1b1b1b", soft: "#565656", paper: "#ffffff", panel: "#f2f3f5", line: "#d4d7dc", bad: "#a40000", good: "#00603a",
		seriesLines: [...]string{"#0072b2", "#c24e00", "#00805c", "#a8478a", "#766200", "#5a4fcf", "#1b1b1b"},
	}
	dark = theme{
		ink: "#e6e6e6", soft: "#a9adb3", paper: "#0d1117", panel: "#1b2029", line: "#3a404a", bad: "#ff8a80", good: "#7ddba3",
		seriesLines: [...]string{"#56b4e9", "#ff9248", "#2fc79a", "#e79ac6", "#dcc34a", "#aaa4ff", "#e6e6e6"},
	}
)

// properties returns the colours as custom properties of CSS.
func (t theme) properties() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--ink:%s;--soft:%s;--paper:%s;--panel:%s;--line:%s;--bad:%s;--good:%s", t.ink, t.soft, t.paper, t.panel, t.line, t.bad, t.good)
	for i, c := range t.seriesLines {
		fmt.Fprintf(&b, ";--c%d:%s", i, c)
	}
	return b.String()
}

// themesCSS defines both themes, for the page and for each plot, because a plot is an image without access to the page's styles.
// Paper is the light theme.
func themesCSS() string {
	return ":root{" + light.properties() + "}\n@media screen and (prefers-color-scheme:dark){:root{" + dark.properties() + "}}\n"
}
