// Command mutants changes the code in one place at a time, and runs the tests that must fail. The places are in the tables in this
// directory, *.txt (docs/TESTING.md says how to add one). It writes nothing into the tree: the compiler gets changed copies.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	tables    = "internal/mutants/*.txt"
	testLimit = 2 * time.Minute // for the named tests; a test that hangs counts as failed
	pkgLimit  = 9 * time.Minute // of a whole package
)

// mutant is one row: a change of the code, and the tests that must fail.
type mutant struct {
	id, file, function string   // function is empty for code outside of functions
	pkg                string   // package whose tests run
	tags               string   // build tags for the tests
	tests              []string // at least one of them fails with the change; none for a survivor
	survives           string   // why no test fails
	from, to           string
}

// parse reads one table. Rows are separated by empty lines:
//
//	mutant ID
//	in FILE [FUNCTION, or TYPE.METHOD]
//	killed PACKAGE TEST...        or: survives PACKAGE REASON
//	tags TAG                      if the tests need one
//	-text to replace, once in the function; several lines make one text
//	+text instead, if any
func parse(table string) (rows []*mutant, err error) {
	for block := range strings.SplitSeq(strings.TrimSpace(table), "\n\n") {
		m := &mutant{}
		for line := range strings.SplitSeq(block, "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			key, rest, _ := strings.Cut(line, " ")
			words := strings.Fields(rest)
			switch {
			case line[0] == '-':
				m.from += line[1:] + "\n"
			case line[0] == '+':
				m.to += line[1:] + "\n"
			case key == "mutant" && len(words) == 1:
				m.id = words[0]
			case key == "in" && (len(words) == 1 || len(words) == 2):
				m.file, m.function = words[0], strings.Join(words[1:], "")
			case key == "killed" && len(words) > 1:
				m.pkg, m.tests = words[0], words[1:]
			case key == "survives" && len(words) > 1:
				m.pkg, m.survives = words[0], strings.Join(words[1:], " ")
			case key == "tags" && len(words) == 1:
				m.tags = words[0]
			default:
				return nil, fmt.Errorf("mutant %q: the line %q is none of the table's", m.id, line)
			}
		}
		m.from, m.to = strings.TrimSuffix(m.from, "\n"), strings.TrimSuffix(m.to, "\n")
		switch {
		case m.id == "" && m.from == "": // a comment
		case m.id == "" || m.file == "" || m.pkg == "" || m.from == "" || m.from == m.to:
			return nil, fmt.Errorf("mutant %q: the row is not complete: %q", m.id, block)
		default:
			rows = append(rows, m)
		}
	}
	return rows, nil
}

// load reads all tables below root, the module's directory.
func load(root string) (rows []*mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, tables))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("read the tables %s of %q: none found: run this in the module's directory (%w)", tables, root, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		more, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// apply changes the source.
func (m *mutant) apply(src string) (string, error) {
	start, end := 0, len(src)
	if m.function != "" {
		name := `(\([^)]*\) )?` + regexp.QuoteMeta(m.function)
		if typ, method, ok := strings.Cut(m.function, "."); ok {
			name = `\(\w+ \*?` + regexp.QuoteMeta(typ) + `(\[\w+\])?\) ` + regexp.QuoteMeta(method)
		}
		found := regexp.MustCompile(`(?m)^func `+name+`[\[(]`).FindAllStringIndex(src, 2)
		if len(found) != 1 {
			return "", fmt.Errorf("mutant %s: %s has %d functions %s, want 1", m.id, m.file, len(found), m.function)
		}
		start = found[0][0]
		line, _, _ := strings.Cut(src[start:], "\n")
		if end = start + len(line); !strings.HasSuffix(line, "}") { // otherwise the line is the whole declaration
			end = start + strings.Index(src[start:], "\n}\n")
		}
	}
	if n := strings.Count(src[start:end], m.from); n != 1 {
		return "", fmt.Errorf("mutant %s: %s %s has the text %d times, want 1:\n%s", m.id, m.file, m.function, n, m.from)
	}
	return src[:start] + strings.Replace(src[start:end], m.from, m.to, 1) + src[end:], nil
}

// bench builds and runs tests of the module at root, with files in dir, and prints to out.
type bench struct {
	root, dir string
	out       io.Writer
}

// build compiles the tests of a package with build tags, with the change of m unless m is nil.
func (b *bench) build(ctx context.Context, pkg, tags string, m *mutant) (binary string, err error) {
	binary = filepath.Join(b.dir, "test")
	args := []string{"test", "-c", "-ldflags=-w", "-tags", tags, "-o", binary} // without debug information, linking is faster
	if m != nil {
		file := filepath.Join(b.root, m.file)
		src, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text, err := m.apply(string(src))
		if err != nil {
			return "", err
		}
		changed, overlay := filepath.Join(b.dir, "changed.go"), filepath.Join(b.dir, "overlay.json")
		list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
		if err := errors.Join(err, os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return binary, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// run runs the named tests of a package, or all of its tests. It returns their output, and the first test that failed, if any.
func (b *bench) run(ctx context.Context, binary, pkg string, tests []string) (out []byte, by string) {
	limit, pattern := pkgLimit, "."
	if len(tests) > 0 {
		limit, pattern = testLimit, "^("+strings.Join(tests, "|")+")$"
	}
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout", limit.String(), "-test.run", pattern)
	cmd.Dir = filepath.Join(b.root, pkg)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return out, ""
	}
	if f := failed.FindSubmatch(out); f != nil {
		return out, string(f[1])
	}
	return out, strings.Join(tests, ", ") + " (" + err.Error() + ")"
}

// sound runs the tests of all rows of a package, with one set of build tags, on the unchanged code. Rows whose tests fail there cannot be
// judged.
func (b *bench) sound(ctx context.Context, rows []*mutant) (judged []*mutant, err error) {
	pkg := rows[0].pkg
	binary, err := b.build(ctx, pkg, rows[0].tags, nil)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, m := range rows {
		tests = append(tests, m.tests...)
	}
	slices.Sort(tests)
	var out []byte
	if tests = slices.Compact(tests); len(tests) > 0 {
		out, _ = b.run(ctx, binary, pkg, tests)
	}
	for _, m := range rows {
		passes := func(test string) bool { return bytes.Contains(out, []byte("--- PASS: "+test+" ")) }
		if m.survives != "" || slices.ContainsFunc(m.tests, passes) {
			judged = append(judged, m)
		} else {
			fmt.Fprintf(b.out, "%s: not judged: none of %s passes here without the change\n", m.id, strings.Join(m.tests, ", "))
		}
	}
	return judged, nil
}

// check judges one row. It reports whether the row is right.
func (b *bench) check(ctx context.Context, m *mutant) bool {
	start := time.Now()
	binary, err := b.build(ctx, m.pkg, m.tags, m)
	if err != nil {
		fmt.Fprintln(b.out, "does not build:", err)
		return false
	}
	_, by := b.run(ctx, binary, m.pkg, m.tests)
	took := time.Since(start).Round(100 * time.Millisecond)
	switch {
	case by == "" && m.survives == "":
		fmt.Fprintf(b.out, "SURVIVED %s in %v\n", strings.Join(m.tests, ", "), took)
	case by == "":
		fmt.Fprintf(b.out, "survived %s in %v, as known: %s\n", m.pkg, took, m.survives)
	case m.survives != "":
		fmt.Fprintf(b.out, "killed by %s in %v: name that test in its row\n", by, took)
		return false
	default:
		fmt.Fprintf(b.out, "killed by %s in %v\n", by, took)
	}
	return by != "" || m.survives != ""
}

func work(ctx context.Context, ids *regexp.Regexp, survivors bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	rows, err := load(root)
	if err != nil {
		return err
	}
	chosen := map[string][]*mutant{}
	total, wrong, n := 0, 0, 0
	for _, m := range rows {
		if ids.MatchString(m.id) && (m.survives != "") == survivors {
			key := m.pkg + " " + m.tags
			chosen[key] = append(chosen[key], m)
			total++
		}
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // remaining files are in the directory for temporary files
	b := &bench{root, dir, os.Stdout}
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		rows := chosen[key]
		judged, err := b.sound(ctx, rows)
		if err != nil {
			return err
		}
		total -= len(rows) - len(judged)
		for _, m := range judged {
			n++
			fmt.Fprintf(b.out, "%d/%d %s: ", n, total, m.id)
			if !b.check(ctx, m) {
				wrong++
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	fmt.Fprintf(b.out, "%d mutants judged, %d not as their rows say\n", n, wrong)
	if wrong > 0 {
		return errors.New("tests let mutants live, or rows are wrong: see above")
	}
	return nil
}

func main() {
	ids := flag.String("id", ".", "regular expression of the `ids` to judge")
	survivors := flag.Bool("survivors", false, "judge the known survivors instead, each by all tests of its package")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen, err := regexp.Compile(*ids)
	if err == nil {
		err = work(ctx, chosen, *survivors)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}
