package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/bench"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// TestAppsAsOrdinaryUser runs programs over plain sockets and over TCP, pinned and not, beside a busy process, and makes a page of the
// report.
func TestAppsAsOrdinaryUser(t *testing.T) {
	r := runAsNobody(t, "apps", "--loop", "--duration", "10ms", "--idle", "100ms", "--rounds", "2", "--tests", "stream,idle", "--beside", "1")
	var got []string
	for i := range r.Apps {
		x := &r.Apps[i]
		got = append(got, fmt.Sprintf("%s %d over %s: %d", x.Test, x.Connections, x.By(), len(x.Rounds)))
	}
	slices.Sort(got)
	want := []string{"idle 1000 over nd udp: 2"}
	for _, by := range []string{"nd udp", "nd udp, pinned", "tcp", "tcp, pinned"} {
		want = append(want, "stream 1 over "+by+": 2")
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("programs are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Beside != 1 {
		t.Errorf("%d processes beside", r.Beside)
	}
	file, page := filepath.Join(t.TempDir(), "apps.json"), filepath.Join(t.TempDir(), "page.html")
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage([]string{file}, page, "", &text); err != nil {
		t.Error(err)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(`id="programs"`)) {
		t.Errorf("the page has no programs (%v)", err)
	}
}

// TestAppsOverVeth does the same over AF_XDP, whose results have bounds.
func TestAppsOverVeth(t *testing.T) {
	netlabtest.NeedRoot(t)
	out := filepath.Join(t.TempDir(), "apps.json")
	if text, err := ndperf(t, "apps", "--duration", "10ms", "--rounds", "1", "--tests", "echo,grpc", "--mtu", "9000", "--json", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err := readReport(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Apps) != 16 || len(bench.Bars([]*bench.Report{r})) != 12 {
		t.Errorf("%d programs, %d bars", len(r.Apps), len(bench.Bars([]*bench.Report{r})))
	}
}

// children returns the running processes that pid started.
func children(pid int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, ...
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			all = append(all, child)
		}
	}
	return all
}

// TestBusyProcessesDieWithTheirParent kills a run with busy processes.
func TestBusyProcessesDieWithTheirParent(t *testing.T) {
	cmd := ndperf(t, "apps", "--loop", "--tests", "echo", "--duration", "1m", "--beside", "3", "--udp-port", fmt.Sprint(netlabtest.FreePort(t)))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var busy []int
	deadline := time.Now().Add(patience)
	for len(busy) < 3+2 && time.Now().Before(deadline) { // and both sides of the program
		busy = children(cmd.Process.Pid)
		time.Sleep(10 * time.Millisecond) // another process is awaited
	}
	if len(busy) < 3+2 {
		t.Errorf("%d processes run, want 5", len(busy))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, pid := range busy {
		for !ended(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d lives on", pid)
			}
			time.Sleep(10 * time.Millisecond) // as above
		}
	}
}

// ended reports whether a process has ended, even if its parent has not reaped it.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.HasPrefix(string(text[bytes.LastIndexByte(text, ')')+1:]), " Z")
}

// TestBusyProcessEnds: a busy process ends when it is stopped, when its input ends, and after its maximum time.
func TestBusyProcessEnds(t *testing.T) {
	late := time.Now().Add(patience)
	stop, never := make(chan struct{}), make(chan error, 1)
	close(stop)
	if err := compute(stop, never, late); err != nil {
		t.Error(err)
	}
	never <- nil
	if err := compute(nil, never, late); err != nil {
		t.Error(err)
	}
	if err := compute(nil, nil, time.Now()); !errors.Is(err, errTooLong) {
		t.Errorf("error is %v", err)
	}
	before := children(os.Getpid())
	t.Setenv(runAgain, "1")
	end, err := startBusy(2)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(children(os.Getpid())) - len(before); n != 2 {
		t.Errorf("%d busy processes, want 2", n)
	}
	end()
	if after := children(os.Getpid()); len(after) != len(before) {
		t.Errorf("%d processes are left", len(after)-len(before))
	}
}

// TestInterruptedProgramsReport: if apps is interrupted, complete rounds are printed and written, and the command fails.
func TestInterruptedProgramsReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "apps.json")
	for _, measured := range []bool{false, true} {
		out, err := openJSON(file, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		r := &appsRun{report: newReport()}
		if measured {
			r.report.AddApp(bench.AppResult{Test: bench.AppEcho, Connections: 1, Size: 64, MTU: 1500, Over: bench.OverTCP, Verified: true}, bench.AppRound{Seconds: 1, Ops: 9})
		}
		var said bytes.Buffer
		err = r.finish(context.Canceled, out, &said)
		out.abandon()
		if !errors.Is(err, context.Canceled) || strings.Contains(said.String(), "not all was measured: ") != measured || strings.Contains(said.String(), "echo 1") != measured {
			t.Errorf("measured %v: %v\n%s", measured, err, &said)
		}
		f, err := os.Open(file)
		if !measured {
			if err == nil {
				t.Error("nothing was measured, and there is a report")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bench.ReadReport(f); err != nil || !got.Incomplete || len(got.Apps) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		f.Close()
	}
}
