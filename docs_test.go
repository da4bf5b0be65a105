package ndxdp_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each test, benchmark and fuzz target that a page names exists, and each row of the troubleshooting table names one.
func TestPagesNameTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range function.FindAllSubmatch(text, -1) {
			declared[string(f[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	named := regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	decisions, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range slices.Concat(pages, decisions, []string{"README.md", "CONTRIBUTING.md"}) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if !declared[name] {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
	text, err := os.ReadFile("docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## Troubleshooting\n")
	_, table, _ := strings.Cut(part, "| --- |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n| ")[1:]
	if len(rows) < 30 {
		t.Errorf("the table of troubleshooting in docs/OPERATING.md has %d rows", len(rows))
	}
	for _, row := range rows {
		if !named.MatchString(row) {
			t.Errorf("docs/OPERATING.md: no test in the row %.60s", row)
		}
	}
}

// No recipe puts anything into the directory of the library's own secret, which only root may enter (internal/hostkey). This covers
// the files of packaging, the commands on the page for operators, and the examples of commands that start a broker.
func TestRecipesLeaveThePrivateDirectory(t *testing.T) {
	const private = "/run/ndxdp"
	page, err := os.ReadFile("docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?ms)^```.*?^```").FindAllString(string(page), -1)
	if len(commands) < 6 {
		t.Fatalf("docs/OPERATING.md has %d blocks of commands", len(commands))
	}
	for _, block := range commands {
		if strings.Contains(block, private) {
			t.Errorf("docs/OPERATING.md: %s", block)
		}
	}
	broker := regexp.MustCompile(`--(?:broker|socket)[ =]` + private)
	for _, dir := range []string{"packaging", "cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			switch filepath.Ext(path) {
			case ".go":
				if broker.Match(text) {
					t.Errorf("%s names a broker below %s", path, private)
				}
			case ".yaml", ".service", ".socket":
				if strings.Contains(string(text), private) {
					t.Errorf("%s names a path below %s", path, private)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Each term of the glossary is used in the code or on another page. ARCHITECTURE links to the glossary.
func TestGlossaryTermsAreUsed(t *testing.T) {
	page, err := os.ReadFile("docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	architecture, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil || !strings.Contains(string(architecture), "(GLOSSARY.md)") {
		t.Errorf("docs/ARCHITECTURE.md does not lead to the glossary (%v)", err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([a-z][a-z -]+) \| (.+) \|$`).FindAllStringSubmatch(string(page), -1)
	unused := map[string]*regexp.Regexp{}
	for _, row := range rows[1:] { // the first one is the head
		if unused[row[1]] != nil {
			t.Errorf("%s stands in the glossary twice", row[1])
		}
		unused[row[1]] = regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(row[1], " ", `\s+(?://\s+)?`))
	}
	if len(unused) < 10 {
		t.Fatalf("only %d terms", len(unused))
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if err != nil || d.IsDir() || len(unused) == 0 || d.Name() == "GLOSSARY.md" || d.Name() == "docs_test.go" || ext != ".go" && ext != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for term, use := range unused {
			if use.Match(text) {
				delete(unused, term)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for term := range unused {
		t.Errorf("nothing uses the term %q of the glossary", term)
	}
}

// ARCHITECTURE §5 lists each page of docs/decisions once, with its title, and nothing else. There are at most 20 pages. Each has
// its four parts, and at most 30 lines.
func TestDecisionsAreListed(t *testing.T) {
	text, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^- \[(.+)\]\((decisions/[\w.-]+)\)$`).FindAllStringSubmatch(string(text), -1) {
		if listed[m[2]] != "" {
			t.Errorf("%s is listed twice", m[2])
		}
		listed[m[2]] = "# " + m[1] + "\n"
	}
	pages, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(pages) == 0 || len(pages) > 20 {
		t.Fatal(len(pages), pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(page, "docs/")
		if listed[name] == "" || !strings.HasPrefix(string(text), listed[name]) {
			t.Errorf("%s is not listed with its title", page)
		}
		delete(listed, name)
		for _, part := range []string{"Decision", "Reason", "Measured", "Reconsider"} {
			if strings.Count(string(text), "\n**"+part+".** ") != 1 {
				t.Errorf("%s: not one part called %s", page, part)
			}
		}
		if n := strings.Count(string(text), "\n"); n > 30 {
			t.Errorf("%s has %d lines", page, n)
		}
	}
	for name := range listed {
		t.Errorf("%s is listed and not there", name)
	}
}

// Each step of the walks in ARCHITECTURE names an existing file, and functions or tables that it declares.
func TestWalksNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walks, found := strings.Cut(string(page), "### Four walks")
	walks, _, _ = strings.Cut(walks, "\n## ")
	named := regexp.MustCompile("`([a-z0-9/]+\\.go)`|`(\\w+)`").FindAllStringSubmatch(walks, -1)
	if !found || len(named) < 100 {
		t.Fatalf("the walks have %d names", len(named))
	}
	file, text := "", []byte(nil)
	for _, n := range named {
		if n[1] != "" {
			file = n[1]
			if text, err = os.ReadFile(file); err != nil {
				t.Error(err)
			}
		} else if !regexp.MustCompile(`(?m)^(func (\(\w+ \*?\w+\) )?|var )` + n[2] + `\b`).Match(text) {
			t.Errorf("%s declares no %s", file, n[2])
		}
	}
}
