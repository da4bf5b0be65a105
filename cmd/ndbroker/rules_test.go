package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab"
	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// The broker obeys the rules of its command line and the rules of its file. A # within the name of a cgroup belongs to the name. An
// error names the line of a wrong rule.
func TestRulesOfFlagsAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules")
	f := &flags{allowUIDs: []uint{1}, allowGIDs: []uint{2}, allowCgroups: []string{"/c,d"}, allowFrom: file}
	for _, c := range []struct{ text, rules, mistake string }{
		{"", "uid 1, gid 2, cgroup /c,d", ""},
		{"# who\n\n 3 # it\ngid\t4\t#\r\nuid 5\ncgroup /a b#c # d", "uid 1, uid 3, uid 5, gid 2, gid 4, cgroup /c,d, cgroup /a b#c", ""},
		{"3\n\ngid 4x\n", "", `--allow-from ` + file + `: line 3: "gid 4x" is no rule`},
		{"# who\ncgroup a # b\n", "", `--allow-from ` + file + `: line 2: "a" is no cgroup`},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := f.policy()
		if c.mistake == "" && (err != nil || p.String() != c.rules) {
			t.Errorf("%q: %q, %v, want %q", c.text, p.String(), err, c.rules)
		}
		if c.mistake != "" && (err == nil || !strings.Contains(err.Error(), c.mistake)) {
			t.Errorf("%q: %v, want %q", c.text, err, c.mistake)
		}
	}
}

// cgroup is a cgroup of a test, in the hierarchy of version 2.
type cgroup struct{ path, dir string } // path in rules, and directory where it is mounted

// newCgroup makes a cgroup below this process's own, until the test ends.
func newCgroup(t *testing.T) (cgroup, error) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var root, at string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			root, at = fields[3], fields[4]
		}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, has := strings.Cut("\n"+string(own), "\n0::")
	if at == "" || !has {
		return cgroup{}, errors.New("no cgroup2 file system is mounted")
	}
	path, _, _ = strings.Cut(path, "\n")
	below, err := filepath.Rel(root, path)
	if err != nil || strings.HasPrefix(below, "..") {
		return cgroup{}, fmt.Errorf("the cgroup2 file system is mounted from %s, and this process is in %s", root, path)
	}
	parent := cgroup{path, filepath.Join(at, below)}
	return parent.child(t, fmt.Sprintf("ndbroker-test-%d", os.Getpid()))
}

// child makes a cgroup in c, until the test ends.
func (c cgroup) child(t *testing.T, name string) (cgroup, error) {
	t.Helper()
	made := cgroup{filepath.Join(c.path, name), filepath.Join(c.dir, name)}
	if err := os.Mkdir(made.dir, 0o755); err != nil {
		return made, err
	}
	t.Cleanup(func() {
		if err := os.Remove(made.dir); err != nil {
			t.Error(err)
		}
	})
	return made, nil
}

// starts makes cmd start in c.
func (c cgroup) starts(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	dir, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
}

// TestAdmittedByGroupAndCgroup: an interface is leased to processes of one user that have the admitted group or cgroup, and not to
// processes with a sibling.
func TestAdmittedByGroupAndCgroup(t *testing.T) {
	const group = 70_000
	pair := netlabtest.Pair(t, netlab.PairConfig{})
	a := pair.AddrA.Addr().String()
	all, unusable := newCgroup(t)
	socket, _ := startBrokerFor(t, pair.A, pair.NameA, "--allow-gid", fmt.Sprint(group), "--allow-cgroup", filepath.Join("/", all.path, "app"))
	ask := func(t *testing.T, cmd *exec.Cmd) *process {
		t.Helper()
		return start(t, pair.A, cmd, fmt.Sprintf("hold %s %s %s", socket, a, a))
	}
	admitted := func(t *testing.T, cmd *exec.Cmd) {
		t.Helper()
		p := ask(t, cmd)
		p.awaitReady(t)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	refused := func(t *testing.T, cmd *exec.Cmd, want string) {
		t.Helper()
		p := ask(t, cmd)
		if err := cmd.Wait(); err == nil || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%v, %q, want %q", err, &p.stderr, want)
		}
	}
	const stranger = "user 65534 may not use this broker: no rule admits"

	t.Run("group", func(t *testing.T) {
		for _, groups := range [][]uint32{{group}, {1, group, group + 1}} {
			cmd := clientCommand(t)
			cmd.SysProcAttr.Credential.Groups = groups
			admitted(t, cmd)
		}
		primary := clientCommand(t)
		primary.SysProcAttr.Credential.Gid = group
		admitted(t, primary)
		other := clientCommand(t)
		other.SysProcAttr.Credential.Groups = []uint32{1, group + 1}
		refused(t, other, stranger)
	})
	t.Run("cgroup", func(t *testing.T) {
		if unusable != nil {
			t.Skip("no cgroup can be made: ", unusable)
		}
		place := func(parent cgroup, name string) cgroup {
			t.Helper()
			made, err := parent.child(t, name)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		app := place(all, "app")
		for _, in := range []cgroup{app, place(app, "worker")} {
			cmd := clientCommand(t)
			in.starts(t, cmd)
			admitted(t, cmd)
		}
		for _, in := range []cgroup{all, place(all, "app2")} {
			cmd := clientCommand(t)
			in.starts(t, cmd)
			refused(t, cmd, fmt.Sprintf("(the client's cgroup is %q)", in.path))
		}
	})
	wantClean(t, pair)
}
