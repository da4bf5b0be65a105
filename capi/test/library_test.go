// Package test checks libndxdp.so as C programs see it: it builds the library, and compiles and runs programs against it.
package test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ndxdp/ndxdp/nd"
)

// library is where the built library is.
var library struct {
	once sync.Once
	dir  string
	err  error
}

// TestMain removes the library at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(library.dir) // empty if no test needed the library
	os.Exit(code)
}

// build builds the library once, and returns its directory.
func build(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"gcc", "make", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: apt-get install gcc make pkg-config", tool)
		}
	}
	library.once.Do(func() {
		if library.dir, library.err = os.MkdirTemp("", "libndxdp"); library.err == nil { //nolint:usetesting // it outlives the test that makes it
			out, err := exec.Command("make", "-s", "-C", "../..", "capi", "CAPI_DIR="+library.dir).CombinedOutput()
			if library.err = err; err != nil {
				library.err = fmt.Errorf("make capi: %w\n%s", err, out)
			}
		}
	})
	if library.err != nil {
		t.Fatal(library.err)
	}
	return library.dir
}

// compile compiles a C program against the library, as pkg-config says, and returns its path.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := build(t)
	config := exec.Command("pkg-config", "--cflags", "--libs", "ndxdp")
	config.Env = append(os.Environ(), "PKG_CONFIG_PATH="+dir)
	found, err := config.Output()
	if err != nil {
		t.Fatal("pkg-config:", err)
	}
	program := filepath.Join(t.TempDir(), "program")
	args := slices.Concat([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o", program}, flags,
		[]string{source}, strings.Fields(string(found)), []string{"-pthread", "-Wl,-rpath," + dir})
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// loopback returns the first three bytes of loopback addresses that other processes do not use.
func loopback() string { return fmt.Sprintf("127.%d.%d", 1+os.Getpid()/250%250, 1+os.Getpid()%250) }

// check runs a check of a program.
func check(t *testing.T, program, name string) {
	t.Helper()
	cmd := exec.Command(program, name)
	cmd.Env = append(os.Environ(), "CHECK_NET="+loopback())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCalls(t *testing.T) {
	program := compile(t, "testdata/check.c")
	for _, name := range []string{"handles", "limits", "transfers", "full", "shared", "sleeping"} {
		t.Run(name, func(t *testing.T) { check(t, program, name) })
	}
}

func TestFaults(t *testing.T) {
	program := compile(t, "testdata/faults.c")
	for _, name := range []string{"forked", "signals", "registrations", "many", "lost", "refused", "killed"} {
		t.Run(name, func(t *testing.T) { check(t, program, name) })
	}
}

// The same program with gcc's AddressSanitizer finds no wrong access to the program's memory.
func TestCallsUnderAddressSanitizer(t *testing.T) {
	program := compile(t, "testdata/check.c", "-fsanitize=address")
	for _, name := range []string{"limits", "transfers", "shared"} {
		t.Run(name, func(t *testing.T) { check(t, program, name) })
	}
}

// The example plays ping-pong and reads the server's store.
func TestExample(t *testing.T) {
	program := compile(t, "../example/example.c")
	server := exec.Command(program, "server", loopback()+".1", "7001")
	said, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }() // it has ended unless the test failed
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "listening\n" {
		t.Fatalf("the server says %q, %v", line, err)
	}
	out, err := exec.Command(program, "client", loopback()+".2", loopback()+".1", "7001", "300").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the store is right") {
		t.Errorf("the client: %v\n%s", err, out)
	}
	if err := server.Wait(); err != nil {
		t.Error("the server:", err)
	}
}

// Programs see the functions of the header and no others, with the version of the interface.
func TestExportedSymbols(t *testing.T) {
	dir := build(t)
	header, err := os.ReadFile("../ndxdp.h")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^NDX_API [^(]*?\b(ndx_\w+)\(`).FindAllSubmatch(header, -1) {
		want = append(want, string(m[1])+"@@NDXDP_1")
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libndxdp.so")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "T" {
			got = append(got, f[2])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("the library exports\n%q, the header has\n%q", got, want)
	}
}

// The header has the numbers of package nd, and status.c its names and texts.
func TestStatusesAreThoseOfND(t *testing.T) {
	header, err := os.ReadFile("../ndxdp.h")
	if err != nil {
		t.Fatal(err)
	}
	texts, err := os.ReadFile("../status.c")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, m := range regexp.MustCompile(`#define (NDX_ERR_\w+) +\(\(ndx_status\)0x([0-9A-F]+)\)`).FindAllSubmatch(header, -1) {
		var s nd.Status
		if _, err := fmt.Sscanf(string(m[2]), "%X", (*uint32)(&s)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(s.Name(), "0x") { // not a status of package nd
			continue
		}
		line := fmt.Sprintf("{%s, %q, ", m[1], s.Name())
		if !strings.Contains(string(texts), line) {
			t.Errorf("status.c lacks %s", line)
		}
		compared++
	}
	if compared < 25 {
		t.Errorf("only %d statuses were compared", compared)
	}
}
