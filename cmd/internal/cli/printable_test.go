package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// hostile has what another process must not send to a terminal: escape sequences of both kinds, line ends, a change of direction, a
// tag character, and invalid UTF-8.
const hostile = "\x1b]0;x\a\x9b2J\u009b2J\r\n\u202e\U000e0041\xff\x7f"

// TestPrintable: harmless text does not change, and from other text the terminal gets only printable characters.
func TestPrintable(t *testing.T) {
	for _, s := range []string{"", "ndperf", `C:\"x"`, "Müller 東京 ☃"} {
		if got := Printable(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	got := Printable("a" + hostile + "b")
	if want := `a\x1b]0;x\a\x9b2J\u009b2J\r\n\u202e\U000e0041\xff\x7fb`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPrintableJSON: a line of JSON is printed without control characters, with the same meaning.
func TestPrintableJSON(t *testing.T) {
	line, err := json.Marshal(map[string]string{"a": hostile, "b": "東京 \"x\""})
	if err != nil {
		t.Fatal(err)
	}
	got := PrintableJSON(string(line) + "\n")
	if i := strings.IndexFunc(strings.TrimSuffix(got, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !strings.HasSuffix(got, "}\n") {
		t.Errorf("at %d of %q", i, got)
	}
	var was, is map[string]string
	if err := errors.Join(json.Unmarshal(line, &was), json.Unmarshal([]byte(got), &is)); err != nil || was["a"] != is["a"] || was["b"] != is["b"] {
		t.Errorf("%v: %q became %q", err, was, is)
	}
}

// TestErrorsAreShownPrintable: an error that quotes another process sends no control characters to a terminal.
func TestErrorsAreShownPrintable(t *testing.T) {
	cmd := Root(&cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return errors.New("it said: " + hostile) }})
	cmd.SetArgs(nil)
	var out strings.Builder
	if status := Run(context.Background(), cmd, &out); status != Failed {
		t.Errorf("status %d", status)
	}
	if said := strings.TrimSuffix(out.String(), "\n"); strings.IndexFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		t.Errorf("%q", said)
	}
}
