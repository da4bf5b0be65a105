package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// ErrTold is wrapped by errors whose message the command has printed already.
var ErrTold = errors.New("the output above says why")

// usageError is an error of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Usagef returns an error of the command line. It should name the argument and the valid values.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// OneLine joins the lines of a joined error, so that a log has all of it, and makes it Printable, because it may contain text from
// outside.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return Printable(strings.Join(lines, "; "))
}

// flagError describes an invalid value of a flag, instead of the parser's own error.
func flagError(_ *cobra.Command, err error) error {
	var number *strconv.NumError
	said, _, duration := strings.Cut(err.Error(), ": time: ")
	switch {
	case duration:
		return Usagef("%s: it is no duration (examples: 300ms, 2s, 1m)", said)
	case !errors.As(err, &number):
		return err
	}
	said, _ = strings.CutSuffix(err.Error(), number.Error())
	switch {
	case errors.Is(number, strconv.ErrRange):
		return Usagef("%sit is too large, or too small", said)
	case number.Func == "ParseUint":
		return Usagef("%sit is no whole number from 0 on", said)
	}
	return Usagef("%sit is no whole number", said)
}

// together matches the library's error for flags that exclude each other.
var together = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)

// unknown matches the library's error for an unknown command.
var unknown = regexp.MustCompile(`^unknown command "([^"]*)" for "`)

// inWords returns err in the words of the command's help, with suggestions for an unknown subcommand of at.
func inWords(at *cobra.Command, err error) string {
	said := OneLine(err)
	if m := unknown.FindStringSubmatch(said); m != nil {
		said = fmt.Sprintf("unknown command %q", m[1])
		at.SuggestionsMinimumDistance = 2
		if names := at.SuggestionsFor(m[1]); len(names) > 0 {
			said += ": did you mean " + strings.Join(names, " or ") + "?"
		}
		return said
	}
	if m := together.FindStringSubmatch(said); m != nil {
		return "--" + strings.ReplaceAll(m[1], " ", " and --") + " exclude each other: leave one out"
	}
	return said
}

// Open opens a file for reading, and returns its size, or -1 if it is not a regular file. The error ends with the given advice.
func Open(name, advice string) (f *os.File, size int64, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, -1, fmt.Errorf("%w: %s", err, advice)
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f, info.Size(), nil
	}
	return f, -1, nil
}
