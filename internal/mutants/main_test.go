package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// Every row fits the code: its text occurs exactly once, its replacement is valid Go, and its tests exist.
func TestRowsFitTheCode(t *testing.T) {
	rows, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, m := range rows {
		if ids[m.id] {
			t.Errorf("two rows have the id %s", m.id)
		}
		ids[m.id] = true
		src, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		changed, err := m.apply(string(src))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, parser.SkipObjectResolution); err != nil {
			t.Errorf("mutant %s: %v", m.id, err)
		}
		have := testsOf(t, m.pkg)
		for _, test := range m.tests {
			if !strings.Contains(have, "func "+test+"(") {
				t.Errorf("mutant %s: %s has no %s", m.id, m.pkg, test)
			}
		}
	}
}

var sources = map[string]string{}

// testsOf returns the text of a package's test files.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	if text, ok := sources[pkg]; ok {
		return text
	}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("package %s has no tests: %v", pkg, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sources[pkg] += string(text)
	}
	return sources[pkg]
}

func TestRowsThatDoNotFit(t *testing.T) {
	const src = "package p\n\nfunc (c *conn) f() {\n\ta()\n\ta()\n}\n\nfunc (d *dog) f() {\n\ta()\n}\n\nfunc (r *ring[T]) g() { a() }\n\nfunc h() {\n\ta()\n}\n"
	for want, m := range map[string]mutant{
		"":                            {function: "dog.f", from: "a()", to: "b()"},
		"ring.g has the text 0 times": {function: "ring.g", from: "\ta()"},
		"functions cat.f":             {function: "cat.f", from: "a()"},
		"2 functions f":               {function: "f", from: "a()"},
		"text 2 times":                {function: "conn.f", from: "a()"},
		"dog.f has the text 0 times":  {function: "dog.f", from: "c()"},
	} {
		got, err := m.apply(src)
		if want == "" && (err != nil || !strings.Contains(got, "(d *dog) f() {\n\tb()\n}\n")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v\n%s", want, err, got)
		}
	}
	for _, table := range []string{"mutant a\nin f g\n-x\n", "mutant a b", "in f\nkilled p TestX\n-x\n+y", "mutant a\nin f\nkilled p TestX\n-x\n+x"} {
		if rows, err := parse(table); err == nil {
			t.Errorf("%q is read as %+v", table, rows)
		}
	}
}

// A change that makes a test fail is killed, a change that does not survives, and a change that does not build is neither.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module m\n\ngo 1.26\n",
		"p/p.go":         "package p\n\nfunc Least(a, b int) int {\n\tif a < b {\n\t\treturn a\n\t}\n\treturn b\n}\n",
		"p/p_test.go":    "package p\n\nimport \"testing\"\n\nfunc TestLeast(t *testing.T) {\n\tif Least(1, 2) != 1 {\n\t\tt.Error()\n\t}\n}\n",
		"p/skip_test.go": "package p\n\nimport \"testing\"\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{dir, t.TempDir(), t.Output()}
	row := func(to, test, survives string) *mutant {
		m := &mutant{id: to, file: "p/p.go", function: "Least", pkg: "p", survives: survives, from: "a < b", to: to}
		if test != "" {
			m.tests = regexp.MustCompile(" ").Split(test, -1)
		}
		return m
	}
	for want, rows := range map[bool][]*mutant{
		true:  {row("a > b", "TestLeast", ""), row("a <= b", "", "the same"), row("a > b", "TestLeast TestSkipped", "")},
		false: {row("a <= b", "TestLeast", ""), row("a > b", "", "the same"), row("a + b", "TestLeast", "")},
	} {
		for _, m := range rows {
			if got := b.check(t.Context(), m); got != want {
				t.Errorf("%s %v: %v, want %v", m.to, m.tests, got, want)
			}
		}
	}
	judged, err := b.sound(t.Context(), []*mutant{row("a > b", "TestSkipped", ""), row("a >= b", "TestLeast", "")})
	if err != nil || len(judged) != 1 || judged[0].to != "a >= b" {
		t.Errorf("%v %v: a row whose test is skipped cannot be judged", judged, err)
	}
}
