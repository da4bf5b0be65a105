package ndxdp_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notCited are the sections of docs/PROTOCOL.md that code and tests need not cite, and why.
var notCited = map[string]string{
	"7": "groups its subsections",
	"9": "groups its subsections",

	"10": "reserved: nothing of it is built",
	"12": "reserved: nothing of it is built",
}

// citation finds the sections that a comment names: "PROTOCOL §3.1, §4 and §5". Sections that follow directly belong to the
// citation.
var citation = regexp.MustCompile(`PROTOCOL(?:,? (?:and )?§\d+(?:\.\d+)?)+`)

// cites has the names that the comments of code and of tests contain.
type cites struct{ code, test map[string]bool }

// sources calls read with each source file. A package that only tests use counts as a test.
func sources(t *testing.T, read func(path, text string, test bool)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "cites_test.go" {
			return err
		}
		if e := filepath.Ext(path); e != ".go" && e != ".c" && e != ".h" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.Base(filepath.Dir(path))
		read(path, string(text), strings.HasSuffix(path, "_test.go") || dir == "sim" || strings.HasSuffix(dir, "test"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lack reports the names that are not cited by both code and tests.
func (c *cites) lack(t *testing.T, what string, names []string) {
	t.Helper()
	for _, name := range names {
		if !c.code[name] {
			t.Errorf("%s %s: cited by no code", what, name)
		}
		if !c.test[name] {
			t.Errorf("%s %s: cited by no test", what, name)
		}
	}
}

// Each section of PROTOCOL.md is cited by the code that implements it and by a test of that code. No citation names a section that
// does not exist.
func TestSectionsAreCited(t *testing.T) {
	page, err := os.ReadFile("docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (\d+(?:\.\d+)?)\.? `).FindAllStringSubmatch(string(page), -1) {
		sections[m[1]] = true
	}
	if len(sections) < 20 {
		t.Fatalf("only %d sections", len(sections))
	}
	found := cites{map[string]bool{}, map[string]bool{}}
	number, wrapped := regexp.MustCompile(`\d+(?:\.\d+)?`), regexp.MustCompile(`\n\s*(//|\*) `)
	sources(t, func(path, text string, test bool) {
		for _, c := range citation.FindAllString(wrapped.ReplaceAllString(text, " "), -1) {
			for _, n := range number.FindAllString(c, -1) {
				if !sections[n] {
					t.Errorf("%s cites PROTOCOL §%s, which is not there", path, n)
				}
				if test {
					found.test[n] = true
				} else {
					found.code[n] = true
				}
			}
		}
	})
	for n := range notCited {
		if !sections[n] {
			t.Errorf("notCited names §%s, which is not there", n)
		}
		delete(sections, n)
	}
	found.lack(t, "PROTOCOL section", slices.Sorted(maps.Keys(sections)))
}

// Each invariant of package provider is cited where the code relies on it, and by a test.
func TestInvariantsAreCited(t *testing.T) {
	const home = "provider/doc.go"
	page, err := os.ReadFile(home)
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(I\d+) `).FindAllStringSubmatch(string(page), -1) {
		defined[m[1]] = true
	}
	if len(defined) == 0 {
		t.Fatalf("%s defines no invariants", home)
	}
	found := cites{map[string]bool{}, map[string]bool{}}
	name := regexp.MustCompile(`\bI\d{1,2}\b`)
	sources(t, func(path, text string, test bool) {
		if path == home {
			return
		}
		for line := range strings.Lines(text) {
			_, comment, _ := strings.Cut(line, "// ")
			for _, n := range name.FindAllString(comment, -1) {
				if !defined[n] {
					t.Errorf("%s cites %s, which %s does not define", path, n, home)
				}
				if test {
					found.test[n] = true
				} else {
					found.code[n] = true
				}
			}
		}
	})
	found.lack(t, "invariant", slices.Sorted(maps.Keys(defined)))
}
