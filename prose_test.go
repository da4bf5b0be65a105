package ndxdp_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var updateProse = flag.Bool("update-prose", false, "lower the counts of "+proseGolden+" to what the files have")

// proseGolden lists for each file how many sentences break each rule. The counts only fall.
const proseGolden = "testdata/prose.txt"

// maxSentenceWords is the longest sentence that most readers take in at once. The aim while writing is 25 words.
const maxSentenceWords = 30

// proseRules measure sentences that need a second reading. The aims are the shares of a well-kept code base of the same kind, in percent.
var proseRules = [...]struct {
	name   string
	breaks func(sentence string) bool
	remedy string
	aim    float64
}{
	{
		"Who, What or Whoever as the subject", regexp.MustCompile(`^(?:Who|What|Whoever)\b[^?]*$`).MatchString,
		"name the subject with a noun that the reader finds in the code", 0.2,
	},
	{
		"vague pronoun", regexp.MustCompile(`(?i)\b(?:that one|those|such|the one|the other|what (?:it|they) (?:has|have))\b`).MatchString,
		`repeat the noun in place of "that one", "those", "such", "the one", "the other", "what it has"`, 1.5,
	},
	{
		"three or more relative pronouns", func(s string) bool { return len(relative.FindAllString(s, 3)) == 3 },
		"make two sentences, one fact each", 0.7,
	},
	{
		fmt.Sprintf("more than %d words", maxSentenceWords), func(s string) bool { return len(strings.Fields(s)) > maxSentenceWords },
		"make two sentences, one fact each, condition before consequence", 3,
	},
}

var relative = regexp.MustCompile(`(?i)\b(?:who|whom|whose|which|that|what|whoever)\b`)

// proseCount is how many sentences of a file break each of proseRules.
type proseCount [len(proseRules)]int

func (c proseCount) total() (sum int) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// sentence is one sentence of a file, with the line that its paragraph begins on.
type sentence struct {
	line int
	text string
}

var (
	// sentenceEnd finds where a sentence ends and the next begins.
	sentenceEnd = regexp.MustCompile("([.?!:][)\"'`*_]*)\\s+[\"'`*_(\\[]*[A-Z]")
	listItem    = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
	directive   = regexp.MustCompile(`^(?:[a-z]+:[a-z]|nolint|#)`)
)

// paragraph splits text, which begins on line, into sentences. Two words are a label and no sentence.
func paragraph(line int, text string) (found []sentence) {
	for text = strings.TrimSpace(text); text != ""; {
		s := text
		if end := sentenceEnd.FindStringSubmatchIndex(text); end != nil {
			s = text[:end[3]]
		}
		text = strings.TrimSpace(text[len(s):])
		if len(strings.Fields(s)) > 2 {
			found = append(found, sentence{line, s})
		}
	}
	return found
}

// paragraphs joins lines to paragraphs, and splits these into sentences. Code, which is indented by a tab, is left out.
func paragraphs(first int, lines []string) (found []sentence) {
	begins, text := first, ""
	end := func() {
		found = append(found, paragraph(begins, text)...)
		text = ""
	}
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "\t"), directive.MatchString(line), strings.TrimSpace(line) == "":
			end()
			continue
		case listItem.MatchString(line):
			end()
			line = listItem.ReplaceAllString(line, "")
		}
		if text == "" {
			begins = first + i
		}
		text += line + " "
	}
	end()
	return found
}

// commentSentences are the sentences of all comments of a Go file.
func commentSentences(s source) (found []sentence) {
	for _, group := range s.ast.Comments {
		var lines []string
		for _, c := range group.List {
			text := strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
			for line := range strings.SplitSeq(text, "\n") {
				lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(line, "//"), " "))
			}
		}
		found = append(found, paragraphs(s.fset.Position(group.Pos()).Line, lines)...)
	}
	return found
}

// pageSentences are the sentences of a Markdown page. A cell of a table is a paragraph; code and headings are left out.
func pageSentences(text string) (found []sentence) {
	var lines []string
	first, code := 1, false
	end := func(next int) {
		found = append(found, paragraphs(first, lines)...)
		lines, first = nil, next
	}
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence, code, strings.HasPrefix(line, "#"):
			code = code != fence
			end(i + 2)
		case strings.HasPrefix(strings.TrimSpace(line), "|"):
			end(i + 2)
			for cell := range strings.SplitSeq(line, "|") {
				found = append(found, paragraph(i+1, cell)...)
			}
		default:
			lines = append(lines, strings.TrimLeft(line, " \t>"))
		}
	}
	end(0)
	return found
}

// proseOf returns the sentences of each Markdown page, and of the comments of each Go file that is no test.
func proseOf(tree fs.FS) (map[string][]sentence, error) {
	files, err := parseTree(tree)
	if err != nil {
		return nil, err
	}
	prose := map[string][]sentence{}
	for _, s := range files {
		if !s.isTest() {
			prose[path.Join(s.dir, s.name)] = commentSentences(s)
		}
	}
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || p != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case path.Ext(p) != ".md" || d.IsDir():
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		prose[p] = pageSentences(string(text))
		return err
	})
	return prose, err
}

// countProse counts for each file the sentences that break each rule. Files without such sentences are left out.
func countProse(prose map[string][]sentence) map[string]proseCount {
	counted := map[string]proseCount{}
	for file, sentences := range prose {
		var count proseCount
		for i, rule := range proseRules {
			for _, s := range sentences {
				if rule.breaks(s.text) {
					count[i]++
				}
			}
		}
		if count.total() > 0 {
			counted[file] = count
		}
	}
	return counted
}

// judgeProse compares counts with the golden ones. A file may have at most what its line of the golden file allows. A new file starts at
// zero, and may take over what files allowed that are gone: code moves between files.
func judgeProse(prose map[string][]sentence, golden map[string]proseCount) (bad []string) {
	var free proseCount
	for file, count := range golden {
		if _, there := prose[file]; !there {
			for i := range count {
				free[i] += count[i]
			}
		}
	}
	counted := countProse(prose)
	for _, file := range slices.Sorted(maps.Keys(counted)) {
		allowed, known := golden[file]
		for i, rule := range proseRules {
			over := counted[file][i] - allowed[i]
			if !known {
				over = max(0, over)
				taken := min(over, free[i])
				free[i] -= taken
				over -= taken
			}
			if over <= 0 {
				continue
			}
			bad = append(bad, fmt.Sprintf("%s: %s: %d sentences, %d are allowed; %s:", file, rule.name, counted[file][i], allowed[i], rule.remedy))
			for _, s := range prose[file] {
				if rule.breaks(s.text) {
					bad = append(bad, fmt.Sprintf("%s:%d: %s", file, s.line, s.text))
				}
			}
		}
	}
	return bad
}

// proseShares is a table of the shares of sentences that break each rule, in percent, of comments and of pages.
func proseShares(prose map[string][]sentence) string {
	var all [2]int
	var broken [2]proseCount
	for file, sentences := range prose {
		kind := 0
		if path.Ext(file) == ".md" {
			kind = 1
		}
		all[kind] += len(sentences)
		for i, n := range countProse(map[string][]sentence{file: sentences})[file] {
			broken[kind][i] += n
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| sentences | comments (%d) | pages (%d) | aim |\n| --- | --- | --- | --- |\n", all[0], all[1])
	share := func(kind, rule int) float64 { return 100 * float64(broken[kind][rule]) / float64(max(all[kind], 1)) }
	for i, rule := range proseRules {
		fmt.Fprintf(&table, "| %s | %.2f %% | %.2f %% | < %.1f %% |\n", rule.name, share(0, i), share(1, i), rule.aim)
	}
	return table.String()
}

// readProse reads the golden file: on each line the counts of one file.
func readProse(t *testing.T) map[string]proseCount {
	t.Helper()
	text, err := os.ReadFile(proseGolden)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]proseCount{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var file string
		var c proseCount
		if n, err := fmt.Sscan(line, &c[0], &c[1], &c[2], &c[3], &file); err != nil {
			t.Fatalf("%s: %q: %d fields: %v", proseGolden, line, n, err)
		}
		golden[file] = c
	}
	return golden
}

// Comments and pages get no more sentences that need a second reading. The test prints the shares of the whole repository.
func TestProse(t *testing.T) {
	prose, err := proseOf(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + proseShares(prose))
	if bad := judgeProse(prose, readProse(t)); len(bad) > 0 {
		t.Fatalf("sentences that need a second reading:\n%s", strings.Join(bad, "\n"))
	}
	if !*updateProse {
		return
	}
	var text strings.Builder
	text.WriteString("# Sentences that break a rule of prose_test.go: Who/What as subject, vague pronoun, three relative pronouns, too long. They only fall: make prose.\n")
	counted := countProse(prose)
	for _, file := range slices.Sorted(maps.Keys(counted)) {
		c := counted[file]
		fmt.Fprintf(&text, "%d %d %d %d %s\n", c[0], c[1], c[2], c[3], file)
	}
	if err := os.WriteFile(proseGolden, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each rule finds its sentence, in a comment, at the end of a line of code, in a list and in a table, and leaves code and questions alone.
func TestProseRules(t *testing.T) {
	tree := fstest.MapFS{
		"a.go": {Data: []byte("package a\n\n//go:generate echo those\n\n// A is plain. Who posts runs it.\n// And who asks?\n//\n//\tfor those who read\nvar A int // that one is vague\n")},
		"b.md": {Data: []byte("# Such a title\n\nWhat is here, counts.\nWhat is here?\n\n```\nWho posts waits.\n```\n\n- What goes on.\n\n| such a cell | a plain cell here |\n")},
		"c.go": {Data: []byte("package c\n\n// It is that which makes what is.\n// " + strings.Repeat("long ", maxSentenceWords) + "words.\n")},
		// Tests and test data are free.
		"a_test.go":        {Data: []byte("package a\n\n// Who tests is free.\n")},
		"testdata/c.go":    {Data: []byte("package c\n\n// Who tests is free.\n")},
		"testdata/such.md": {Data: []byte("Who tests is free.\n")},
	}
	prose, err := proseOf(tree)
	if err != nil {
		t.Fatal(err)
	}
	counted := countProse(prose)
	want := map[string]proseCount{"a.go": {1, 1, 0, 0}, "b.md": {2, 1, 0, 0}, "c.go": {0, 0, 1, 1}}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
	if bad := judgeProse(prose, want); len(bad) != 0 {
		t.Errorf("the counts of the golden file: %q", bad)
	}
	// A new file may have as many as a deleted file had, and no more.
	if bad := judgeProse(prose, map[string]proseCount{"b.md": want["b.md"], "c.go": want["c.go"], "gone.go": {1, 1, 0, 0}}); len(bad) != 0 {
		t.Errorf("a file was renamed: %q", bad)
	}
	bad := judgeProse(prose, map[string]proseCount{"b.md": want["b.md"], "c.go": want["c.go"]})
	if len(bad) != 4 || bad[1] != "a.go:5: Who posts runs it." || bad[3] != "a.go:9: that one is vague" {
		t.Errorf("a new file is judged %q", bad)
	}
	// A golden count may fall, and must not rise.
	if bad := judgeProse(prose, map[string]proseCount{"a.go": {9, 9, 9, 9}, "b.md": {2, 0, 0, 0}, "c.go": want["c.go"]}); len(bad) != 2 {
		t.Errorf("one sentence too many is judged %q", bad)
	}
}
