package testhelp

import (
	"bytes"
	"os"
	"testing"
)

// Golden compares the output of a test with a file in its testdata. With update it writes the output to the file. what names the output
// in the error.
func Golden(t testing.TB, what, path string, got []byte, update bool) {
	t.Helper()
	if update {
		Must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: not what %s says; -update rewrites it:\n%s", what, path, got)
	}
}
