// Command testrun runs `go test` and lists at the end which tests were skipped, and why. go test itself prints this only with -v, among
// thousands of lines. Arguments after -- are passed to go test.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	root := flag.Bool("root", false, "fail if no test that needs root ran, or if such a test was skipped because root was missing")
	flag.Parse()
	// A package may take a quarter of an hour, because a busy machine takes several times as long as a quiet one, which takes two minutes.
	cmd := exec.Command("go", append([]string{"test", "-json", "-timeout=15m"}, flag.Args()...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	r := newRun(os.Stdout)
	err = errors.Join(r.read(out), cmd.Wait())
	r.summary()
	if *root {
		err = errors.Join(err, r.rootRan())
	}
	if err != nil {
		fmt.Println("testrun:", err)
		r.failures()
		os.Exit(1)
	}
}

// event is an event of test2json (go doc test2json).
type event struct {
	Action, Package, Test, Output, Key, Value string
}

// The attribute that netlabtest.NeedRoot sets on a test, and the prefix of the reasons for skipping without root.
const (
	needKey, needRoot = "needs", "root"
	rootReason        = "needs root"
)

// testName names a test of a package. Without a test it stands for the package's own output.
type testName struct{ pkg, test string }

// run is the state of all tests so far.
type run struct {
	to     io.Writer
	output map[testName][]string // output of running tests
	rooted map[testName]bool     // tests that need root and have not ended
	ran    int                   // tests that need root and were not skipped
	skips  map[string]int        // by reason
	failed []testName            // failed tests in the order in which they ended
	hung   []string              // tests that ran when their package's time was over, with the functions in which they were
}

func newRun(to io.Writer) *run {
	return &run{to: to, output: map[testName][]string{}, rooted: map[testName]bool{}, skips: map[string]int{}}
}

// read handles events until the end of the input. Lines that are no events are printed.
func (r *run) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil:
			fmt.Fprint(r.to, line)
		default:
			r.take(&e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take prints what go test prints without -v: the output of failed tests, and a line for each package.
func (r *run) take(e *event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.to, e.Output)
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "attr":
		if e.Key == needKey && e.Value == needRoot {
			r.rooted[name] = true
		}
	case "pass", "fail", "skip":
		r.ended(name, e.Action)
	}
}

func (r *run) ended(name testName, how string) {
	said := r.output[name]
	delete(r.output, name)
	needs := r.rooted[name]
	delete(r.rooted, name)
	if how == "fail" {
		r.failed = append(r.failed, name)
	}
	switch {
	case name.test == "" && how == "fail":
		for _, n := range slices.SortedFunc(maps.Keys(r.output), byTest) { // tests that ended by a panic or a time-out
			if n.pkg == name.pkg {
				r.hung = append(r.hung, hung(n, slices.Concat(said, r.output[n]))...)
				r.show(r.output[n])
				delete(r.output, n)
			}
		}
		r.show(said)
	case name.test == "":
		r.show(said[max(0, len(said)-1):])
	case how == "fail":
		r.show(said)
	case how == "skip":
		r.skips[reason(said)]++
	case needs:
		r.ran++
	}
	if needs && how == "fail" {
		r.ran++
	}
}

func byTest(a, b testName) int { return cmp.Compare(a.test, b.test) }

func (r *run) show(lines []string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, "=== ") {
			fmt.Fprint(r.to, l)
		}
	}
}

// said matches a line that a test printed, with its file and line number.
var said = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n$`)

// reason returns the last message of a skipped test.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if m := said.FindStringSubmatch(l); m != nil {
			return m[1]
		}
	}
	return "no reason given"
}

// summary prints which tests were skipped and why, the most frequent reason first.
func (r *run) summary() {
	total := 0
	for _, n := range r.skips {
		total += n
	}
	if total == 0 {
		fmt.Fprintln(r.to, "skipped: nothing")
		return
	}
	fmt.Fprintf(r.to, "skipped: %d tests and subtests\n", total)
	for _, why := range slices.SortedFunc(maps.Keys(r.skips), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.skips[b], r.skips[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(r.to, "%6d  %s\n", r.skips[why], why)
	}
}

// hung names a test that ran when its package's time was over, and for each goroutine that was inside the test the innermost functions.
func hung(n testName, said []string) (lines []string) {
	top, _, _ := strings.Cut(n.test, "/")
	inside := regexp.MustCompile(`\.` + regexp.QuoteMeta(top) + `[.(]`)
	all := strings.Join(said, "")
	if !strings.Contains(all, "\t\t"+n.test+" (") { // it does not run: it waits for its turn or its subtests, or another test panicked
		return nil
	}
	for goroutine := range strings.SplitSeq(all, "\n\n") {
		if !inside.MatchString(goroutine) {
			continue
		}
		var calls []string
		for line := range strings.SplitSeq(goroutine, "\n") {
			if call, _, ok := strings.Cut(line, "(0x"); ok || strings.HasSuffix(line, "(...)") {
				calls = append(calls, filepath.Base(strings.TrimSuffix(call, "(...)")))
			}
		}
		lines = append(lines, fmt.Sprintf("did not end: %s %s: in %s", n.pkg, n.test, strings.Join(calls[:min(len(calls), hungCalls)], " < ")))
	}
	return lines
}

// hungCalls is the number of functions of a goroutine that hung prints.
const hungCalls = 12

// failures lists the failures as the last lines, because thousands of lines may follow the output of a failed test. It lists each test
// without a failed subtest, and each package without a failed test.
func (r *run) failures() {
	for _, line := range r.hung {
		fmt.Fprintln(r.to, line)
	}
	within := map[testName]bool{} // packages and tests that have a listed test inside
	slices.SortStableFunc(r.failed, func(a, b testName) int { return cmp.Compare(a.pkg, b.pkg) })
	for _, n := range r.failed {
		if !within[n] {
			fmt.Fprintln(r.to, strings.TrimSpace(fmt.Sprintf("failed: %s %s", n.pkg, n.test)))
		}
		within[testName{pkg: n.pkg}] = true
		for i, c := range n.test {
			if c == '/' {
				within[testName{n.pkg, n.test[:i]}] = true
			}
		}
	}
}

// rootRan returns an error if a test was skipped because root was missing, or if no test needed root.
func (r *run) rootRan() error {
	fmt.Fprintf(r.to, "need root and ran: %d tests and subtests\n", r.ran)
	for why := range r.skips {
		if strings.HasPrefix(why, rootReason) {
			return fmt.Errorf("tests were skipped that had to run: %s", why)
		}
	}
	if r.ran == 0 {
		return errors.New("no test that needs root ran")
	}
	return nil
}
