package page

import (
	"fmt"
	"strings"

	"github.com/ndxdp/ndxdp/bench"
)

// bar shows the parts of a request's latency as a row.
type bar struct {
	Text     string // description for readers who cannot see the bar
	Segments []segment
}

// segment is one part, in percent of the bar.
type segment struct {
	Part        int // index into bench.PartNames
	From, Width string
}

// barOf leaves out empty parts. The parts must be valid.
func barOf(p *bench.Parts) bar {
	var b bar
	var text []string
	from := 0.0
	for i, us := range p.By() {
		width := 100 * us / p.Sum()
		if us > 0 {
			b.Segments = append(b.Segments, segment{i, hundredths(from), hundredths(width)})
			text = append(text, fmt.Sprintf("%s %.0f %%", bench.PartNames()[i], width))
		}
		from += width
	}
	b.Text = strings.Join(text, ", ")
	return b
}

// ratioBar shows a ratio to kernel TCP, whose length is half of the bar. A ratio above 2 fills the bar.
func ratioBar(ratio float64) bar {
	return bar{Text: fmt.Sprintf("%.2f times TCP", ratio), Segments: []segment{{0, hundredths(0), hundredths(min(50*ratio, 100))}}}
}

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }
