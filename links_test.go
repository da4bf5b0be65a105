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

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageNamed   = regexp.MustCompile(`\bdocs/[\w/.-]+?\.\w+(?:#[\w-]+)?`)
	decisionOf  = regexp.MustCompile(`\b[Dd]ecision (\d+)\b`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notOfAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the names by which a browser finds the headings of a page.
func anchors(page string) (found []string) {
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		found = append(found, strings.ReplaceAll(notOfAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return found
}

// Each link between pages, and each page of docs that code, packaging or a command names, leads to an existing file and heading. A
// decision cited by its number has a page.
func TestLinksLeadSomewhere(t *testing.T) {
	leads := func(from, to string) {
		path, anchor, anchored := strings.Cut(to, "#")
		if path == "" {
			path = from
		}
		text, err := os.ReadFile(path)
		if info, statErr := os.Stat(path); err != nil && (statErr != nil || !info.IsDir()) {
			t.Errorf("%s: %s is not there", from, to)
		}
		if anchored && !slices.Contains(anchors(string(text)), anchor) {
			t.Errorf("%s: %s has no heading for #%s", from, path, anchor)
		}
	}
	ends := []string{".go", ".md", ".yaml", ".yml", ".service", ".socket", ".sh", ".h", ".c", "Makefile", "Containerfile"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || path == "links_test.go" || path == "prose_test.go" || !slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) }) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, named := range pageNamed.FindAllString(string(text), -1) {
			leads(path, named)
		}
		for _, cited := range decisionOf.FindAllStringSubmatch(string(text), -1) {
			if pages, _ := filepath.Glob("docs/decisions/" + strings.Repeat("0", max(0, 2-len(cited[1]))) + cited[1] + "-*.md"); len(pages) != 1 {
				t.Errorf("%s cites %s, which has %d pages", path, cited[0], len(pages))
			}
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		for _, link := range pageLink.FindAllStringSubmatch(string(text), -1) {
			if to := link[1]; strings.HasPrefix(to, "#") {
				leads(path, to)
			} else if !strings.Contains(to, ":") {
				leads(path, filepath.Join(filepath.Dir(path), to))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
