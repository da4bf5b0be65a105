package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Events prints what happens, for people or for programs. It may be used by several goroutines if its Writer may.
type Events struct {
	To   io.Writer
	JSON bool
}

// Say prints a line for people, or with JSON the object in its place.
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

// Microseconds is a duration in objects for programs.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
