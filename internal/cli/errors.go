package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrTold is in errors of which the output of the command has said everything already.
var ErrTold = errors.New("the output says why")

// usageError says that a command was called wrongly.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Usagef makes an error about the command line. It should name the argument and say what is possible.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// OneLine joins the parts of a joined error, so that whoever reads a log sees all of it, and makes it Printable: it may quote others.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
	return Printable(strings.Join(lines, "; "))
}

// Open opens a file to read, and tells its size, -1 for what is no regular file. The error ends with the advice.
func Open(name, advice string) (f *os.File, size int64, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, -1, fmt.Errorf("%w: %s", err, advice)
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f, info.Size(), nil
	}
	return f, -1, nil
}
