package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Events prints events, as lines for users or as JSON for programs. It is safe for concurrent use if its Writer is.
type Events struct {
	To   io.Writer
	JSON bool
}

// Say prints a line, or with JSON the object instead.
func (e *Events) Say(object any, format string, args ...any) {
	if !e.JSON {
		fmt.Fprintf(e.To, format+"\n", args...)
		return
	}
	line, err := json.Marshal(object)
	if err != nil {
		line = fmt.Appendf(nil, `{"event":"error","error":%q}`, err.Error())
	}
	fmt.Fprintln(e.To, PrintableJSON(string(line)))
}

// Microseconds returns a duration for JSON objects.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
