package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReportWritesPageAndPlots(t *testing.T) {
	dir := t.TempDir()
	page, svg := filepath.Join(dir, "page.html"), filepath.Join(dir, "img")
	two := twoSizes(t, dir)
	if err := writePage([]string{two}, page, svg, io.Discard); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), filepath.Base(two)) {
		t.Errorf("the page does not name its source: %v", err)
	}
	if _, err := os.Stat(filepath.Join(svg, "bandwidth-generic-1500.svg")); err != nil {
		t.Error(err)
	}
}

// TestDefaultRunIsShown: the report of a default run makes a page, and a table that fits into a terminal and begins with the summary.
func TestDefaultRunIsShown(t *testing.T) {
	file := filepath.Join("..", "..", "bench", "testdata", "default.json")
	page := filepath.Join(t.TempDir(), "page.html")
	if err := writePage([]string{file}, page, "", io.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	renderReport(&table, r)
	for line := range strings.Lines(table.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	summary, rest, found := strings.Cut(table.String(), "Latency in µs")
	if !found || !strings.Contains(summary, "Summary\n Latency, median") || !strings.Contains(summary, "every operation verified") || strings.Count(rest, "nd tcx") < len(r.Results) {
		t.Errorf("the table is\n%s", table.String())
	}
}

// TestReportOfStandardInput: the report that veth writes to - can be piped to report.
func TestReportOfStandardInput(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "bench", "testdata", "default.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	was := os.Stdin
	os.Stdin = file
	defer func() { os.Stdin = was }()
	page := filepath.Join(t.TempDir(), "page.html")
	if err := writePage([]string{"-"}, page, "", io.Discard); err != nil {
		t.Fatal(err)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "Latency, median") {
		t.Errorf("the page has no headline: %v", err)
	}
}

// twoSizes writes the sample report, of a version without distributions, with a second size of each test.
func twoSizes(t *testing.T, dir string) string {
	t.Helper()
	r, err := readReport(filepath.Join("..", "..", "bench", "testdata", "report.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		x.Size *= 2
		r.Results = append(r.Results, x)
	}
	name := filepath.Join(dir, "two.json")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.WriteJSON(f); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReportSaysWhatToDo: each error names the file and the command that makes a valid one.
func TestReportSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"": "is empty", "{": "cannot be used", `{"schema":"ndperf/1"}`: "no results"} {
		name := filepath.Join(dir, "x.json")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := writePage([]string{name}, filepath.Join(dir, "page.html"), "", io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ndperf sweep --json FILE") {
			t.Errorf("%q: %v, want %q and what to do", content, err, want)
		}
	}
	if name := filepath.Join(dir, "x.json"); os.WriteFile(name, []byte("{}"), 0o600) != nil || writePage([]string{name}, name, "", io.Discard) == nil {
		t.Error("a page takes the place of its report")
	} else if kept, err := os.ReadFile(name); err != nil || string(kept) != "{}" {
		t.Errorf("the report is %q, %v", kept, err)
	}
	if err := writePage([]string{filepath.Join(dir, "none.json")}, "", "", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "does not exist: make it with") {
		t.Errorf("a missing file: %v", err)
	}
}
