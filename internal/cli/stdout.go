package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// stdout is the standard output of a command. It keeps the first error, because nobody looks whether each line of a table was written.
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
			s.err = fmt.Errorf("%w: what was printed is not whole", err)
		}
	}
	return n, err
}

// Fd lets IsTerminal and Width see what it is.
func (s *stdout) Fd() uintptr { return s.file.Fd() }

// Unwritten says why not everything that a command printed to its standard output w is there; nil when it is.
func Unwritten(w io.Writer) error {
	s, ok := w.(*stdout)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
