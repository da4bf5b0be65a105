package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// stdout is the standard output of a command. It keeps the first error, because callers do not check each line of a table.
type stdout struct {
	file *os.File
	mu   sync.Mutex
	err  error
}

func (s *stdout) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = fmt.Errorf("%w: the output is not complete", err)
		}
	}
	return n, err
}

// Fd lets IsTerminal and Width find the terminal.
func (s *stdout) Fd() uintptr { return s.file.Fd() }

// Unwritten returns the error that prevented output to w, or nil.
func Unwritten(w io.Writer) error {
	s, ok := w.(*stdout)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
