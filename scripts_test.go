package ndxdp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hostNames are the hosts that scripts may name: pages for human readers.
var hostNames = []string{"https://go.dev/dl/"}

// No script names a host for packages: the machine's package manager knows the hosts.
func TestScriptsNameNoPackageHost(t *testing.T) {
	scripts := []string{"Makefile", "vagrant/Vagrantfile"}
	for _, pattern := range []string{".ci/*", "vagrant/*.sh"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		scripts = append(scripts, found...)
	}
	host := regexp.MustCompile(`[a-z+]+://[^\s"']+`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range host.FindAllString(string(text), -1) {
			if !slices.Contains(hostNames, name) {
				t.Errorf("%s names %s", script, name)
			}
		}
	}
}

// The guests' packages come from the mirror of the host's apt. If it has none, the script states the remedy.
func TestGuestsUseTheHostsMirror(t *testing.T) {
	for _, c := range []struct{ targets, want string }{
		{"cdrom://disc\nhttps://mirror.example/debian\nhttps://other.example/debian\n", "https://mirror.example/debian\n"},
		{"", "set NDXDP_LAB_MIRROR"},
	} {
		dir := t.TempDir()
		apt := "#!/bin/sh\ncat " + filepath.Join(dir, "targets") + "\n"
		for name, text := range map[string]string{"apt-get": apt, "targets": c.targets} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "vagrant/mirror.sh")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if failed := err != nil; failed != (c.targets == "") || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: the process printed %q, %v, want %q", c.targets, out, err, c.want)
		}
	}
}

// make lists every target with its purpose.
func TestMakeListsItsTargets(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^([^\s:]+):.*## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("the Makefile has %d targets", len(found))
	}
	for _, target := range found {
		if !regexp.MustCompile(`(?m)^  make ` + regexp.QuoteMeta(target[1]) + ` +` + regexp.QuoteMeta(target[2]) + `$`).Match(out) {
			t.Errorf("make does not list %s", target[1])
		}
	}
}

// The lab finds the guests' key and the sockets of ssh also in directories whose names contain spaces.
func TestLabTakesDirectoriesWithSpaces(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("ssh is not installed: apt-get install openssh-client")
	}
	dir := filepath.Join(t.TempDir(), "my lab")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const script = `set -eu; cache=$1 run=$1 work=$1
		eval "$(sed -n '/^write_ssh_config()/,/^}/p' vagrant/guests.sh)"
		write_ssh_config
		path=$(grep -m 1 -oE 'ControlPath=[^ ]+' vagrant/bench.sh)
		eval "ssh -G -F \"\$run/ssh_config\" -o \"$path guest1"`
	out, err := exec.CommandContext(t.Context(), "bash", "-c", script, "-", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"identityfile " + dir + "/key\n", "controlpath " + dir + "/guest1\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("ssh does not say %q:\n%s", want, out)
		}
	}
}
