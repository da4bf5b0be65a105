package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packages has tests that pass, fail, skip and panic.
var packages = map[string]string{
	"go.mod":              "module example.org/m\n\ngo 1.26\n",
	"good/good_test.go":   "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Attr(\"needs\", \"root\"); t.Log(\"all is well\") }\n",
	"bad/bad_test.go":     "package bad\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"it is broken\") }) }\n",
	"skip/skip_test.go":   "package skip\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Log(\"first\"); t.Skip(\"needs a moon\") }\n\nfunc TestB(t *testing.T) { t.Skip(\"needs a moon\") }\n",
	"rooted/root_test.go": "package rooted\n\nimport \"testing\"\n\nfunc TestRoot(t *testing.T) { t.Attr(\"needs\", \"root\"); t.Skip(\"needs root: all of it\") }\n",
	"panic/panic_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestPanic(t *testing.T) { panic(\"on the table\") }\n",
	"hang/hang_test.go":   "package hang\n\nimport \"testing\"\n\nfunc wait(c chan int) { <-c }\n\nfunc TestHang(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { wait(make(chan int)) }) }\n\nfunc TestParallel(t *testing.T) { t.Parallel() }\n",
	"build/build_test.go": "package build\n\nfunc none() { nothing }\n",
}

// testrun runs the command on packages, and returns its output and whether it succeeded.
func testrun(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range packages {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), runAgain+"=1", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// runAgain is an environment variable that makes the test binary testrun.
const runAgain = "TESTRUN_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runAgain) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Failed tests are printed completely, and passed ones in one line. Skipped ones are printed with reason and count. The exit status
// is that of the tests.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        []string
		ok          bool
		says, never []string
	}{
		{
			"everything",
			[]string{"--", "./bad", "./build", "./good", "./panic", "./rooted", "./skip"},
			false,
			[]string{
				"ok  \texample.org/m/good", "--- FAIL: TestBad/sub", "it is broken", "FAIL\texample.org/m/bad", "on the table",
				"undefined: nothing", "[build failed]", "skipped: 3 tests and subtests\n     2  needs a moon\n     1  needs root: all of it\n",
			},
			[]string{"all is well", "=== RUN"},
		},
		{"root ran", []string{"-root", "--", "./good", "./skip"}, true, []string{"need root and ran: 1 tests"}, nil},
		{"root is missing", []string{"-root", "--", "./good", "./rooted"}, false, []string{"tests were skipped that had to run: needs root: all of it"}, nil},
		{"nothing needs root", []string{"-root", "--", "./skip"}, false, []string{"no test that needs root ran"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, ok := testrun(t, c.args...)
			if ok != c.ok {
				t.Errorf("success %t, want %t", ok, c.ok)
			}
			for _, s := range c.says {
				if !strings.Contains(said, s) {
					t.Errorf("the output lacks %q:\n%s", s, said)
				}
			}
			for _, s := range c.never {
				if strings.Contains(said, s) {
					t.Errorf("the output has %q:\n%s", s, said)
				}
			}
		})
	}
}

func TestFailuresAreTheLastLines(t *testing.T) {
	said, _ := testrun(t, "--", "./bad", "./build", "./panic", "./skip")
	const want = "testrun: exit status 1\nfailed: example.org/m/bad TestBad/sub\nfailed: example.org/m/build\nfailed: example.org/m/panic TestPanic\n"
	if !strings.HasSuffix(said, want) {
		t.Errorf("the last lines are not\n%sbut\n%s", want, said)
	}
}

// A test that does not end is named, with the functions that it is in.
func TestHangIsNamed(t *testing.T) {
	said, ok := testrun(t, "--", "-timeout=1s", "./hang")
	const want = "did not end: example.org/m/hang TestHang/sub: in hang.wait < hang.TestHang.func1 < testing.tRunner\n"
	if ok || !strings.Contains(said, want) || strings.Count(said, "did not end") != 2 { // the other one is in T.Run
		t.Errorf("success %t; the output lacks\n%s:\n%s", ok, want, said)
	}
}
