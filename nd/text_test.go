package nd

import (
	"strings"
	"testing"
)

// wantOneLine checks that an error is one line and says all of these.
func wantOneLine(t testing.TB, err error, say ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("more than one line: %q", text)
	}
	if !strings.HasPrefix(text, "nd: ") {
		t.Errorf("%q does not say whose error it is", text)
	}
	for _, s := range say {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
	t.Log(text)
}
