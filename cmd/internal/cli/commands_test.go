package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/nd"
)

// commandNames are all that are built.
var commandNames = []string{"ndbroker", "ndcat", "ndinfo", "ndperf", "ndping", "ndstat"}

// build builds the commands once, and returns their directory.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ndxdp-commands")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", dir}
	for _, name := range commandNames {
		args = append(args, "../../"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return dir, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, _ := build(); dir != "" { // a test has reported the error already
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// outcome is the result of a finished command.
type outcome struct {
	stdout, stderr string
	status         int // -1 if a signal ended it
	signal         syscall.Signal
}

// command makes a command that is killed after a minute, and that does not see other processes' sockets.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	return cmd
}

// ended waits for a started command.
func ended(t *testing.T, cmd *exec.Cmd) (o outcome) {
	t.Helper()
	watchdog := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // the command may have ended
	defer watchdog.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o.status = cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o
}

func run(t *testing.T, name string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(t, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := ended(t, cmd)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

// TestHelpAndCompletion: the help of every command has examples, and bash accepts its completion script.
func TestHelpAndCompletion(t *testing.T) {
	for _, name := range commandNames {
		o := run(t, name, "--help")
		if o.status != OK || o.stderr != "" || !strings.Contains(o.stdout, "\nExamples:\n") || !strings.Contains(o.stdout, "status") {
			t.Errorf("%s --help: %+v", name, o)
		}
		script := filepath.Join(t.TempDir(), "script")
		o = run(t, name, "completion", "bash")
		if err := os.WriteFile(script, []byte(o.stdout), 0o600); o.status != OK || err != nil {
			t.Fatalf("%s completion: %+v, %v", name, o, err)
		}
		check := exec.Command("bash", "--norc", "-ec", "source "+script+"; complete -p "+name)
		if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "__start_"+name) {
			t.Errorf("%s completion in bash: %v\n%s", name, err, out)
		}
	}
}

// subcommands returns the names in the help of a command.
func subcommands(help string) (names []string) {
	_, list, _ := strings.Cut(help, "\nAvailable Commands:\n")
	for line := range strings.Lines(list) {
		if line == "\n" {
			break
		}
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

func TestHelpFitsATerminal(t *testing.T) {
	for _, name := range commandNames {
		for _, sub := range append([]string{""}, subcommands(run(t, name, "--help").stdout)...) {
			args := append(strings.Fields(sub), "--help")
			o := run(t, name, args...)
			if o.status != OK {
				t.Errorf("%s %q: %+v", name, args, o)
			}
			for line := range strings.Lines(o.stdout) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > HelpWidth {
					t.Errorf("%s %s: %d columns: %s", name, sub, n, line)
				}
			}
		}
	}
}

// TestCompletionOffersWhatThereIs requests completions as the shell does.
func TestCompletionOffersWhatThereIs(t *testing.T) {
	names, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"ndbroker --interface|", names[0]},
		{"ndbroker --mode|", "native"},
		{"ndping --datapath|", "generic"},
		{"ndcat --from|", "127.0.0.1"},
		{"ndperf veth --datapath|", "udp"},
		{"ndinfo doctor|", names[0]},
	} {
		args := append(strings.Fields(strings.TrimSuffix(c.args, "|")), "")
		o := run(t, args[0], append([]string{"__complete"}, args[1:]...)...)
		if o.status != OK || !strings.Contains(o.stdout, c.want) {
			t.Errorf("%s: %+v", c.args, o)
		}
	}
}

// TestMistakes: each misuse gives one line with the remedy, and the documented exit status.
func TestMistakes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nosuch")
	const lend = "ndbroker --interface lo --allow-uid 1 "
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"ndbroker --wrong", Misuse, "ndbroker: unknown flag: --wrong (ndbroker --help shows how)"},
		{"ndcat --wrong", Misuse, "ndcat: unknown flag: --wrong (ndcat --help shows how)"},
		{"ndinfo --wrong", Misuse, "ndinfo: unknown flag: --wrong"},
		{"ndperf --wrong", Misuse, "ndperf: unknown flag: --wrong"},
		{"ndperf loop --wrong", Misuse, "(ndperf loop --help shows how)"},
		{"ndping --wrong", Misuse, "ndping: unknown flag: --wrong"},
		{"ndstat --wrong", Misuse, "ndstat: unknown flag: --wrong"},
		{"ndbroker", Misuse, `required flag(s) "interface" not set`},
		{"ndbroker --interface lo", Misuse, "no rule admits a client: add a rule with --allow-uid, --allow-gid or --allow-cgroup, or a file of rules with --allow-from"},
		{lend + "--socket x --mode udp", Misuse, "choose auto, generic, native or ring"},
		{lend + "--socket " + missing + "/x", Failed, "no such file or directory: make its directory first"},
		{lend + "--socket " + os.DevNull, Failed, "another process listens there, or a file that is no socket is in the way"},
		{lend + "--netns " + missing + " --socket x", Failed, "ndbroker: --netns " + missing},
		{"ndping", Misuse, "HOST:PORT is missing"},
		{"ndping 127.0.0.1:7000 8", Misuse, `"8" is one argument too many`},
		{"ndcat nowhere", Misuse, `ndcat: "nowhere" is not HOST:PORT (examples: 192.0.2.7:7000,`},
		{"ndping 127.0.0.1", Misuse, `ndping: "127.0.0.1" is not HOST:PORT (examples: 192.0.2.7:7000,`},
		{"ndping -l 0.0.0.0:7000", Misuse, `ndping: "0.0.0.0:7000" is not the address of one interface`},
		{"ndcat [::]:7000", Misuse, `ndcat: "[::]:7000" is not the address of one host`},
		{"ndping 224.0.0.1:7000", Misuse, `ndping: "224.0.0.1:7000" is not the address of one host`},
		{"ndping 255.255.255.255:7000", Misuse, `ndping: "255.255.255.255:7000" is not the address of one host`},
		{"ndping -l 224.0.0.1:7000", Misuse, "choose one (ip address)"},
		{"ndping 127.0.0.1:0", Misuse, `ndping: "127.0.0.1:0" has no port to connect to`},
		{"ndcat --from b/d 127.0.0.2:7000", Misuse, "it is neither an IP address nor the name of a host (examples: 192.0.2.7,"},
		{"ndping --datapath teleport 127.0.0.2:7000", Misuse, `invalid argument "teleport" for "--datapath" flag`},
		{"ndping -s 4 127.0.0.2:7000", Misuse, `--size: "4" is not a size from 8 to 1M`},
		{"ndinfo doctor --peer b/d", Misuse, "it is neither an IP address nor"},
		{"ndinfo doctor --peer 192.0.2.7", Misuse, "ip route get 192.0.2.7"},
		{"ndinfo doctor nosuch0", Failed, "nosuch0"},
		{"ndbroker --interface nosuch0 --allow-uid 1 --socket " + missing, Failed, "ndbroker: --interface nosuch0: "},
		{"ndstat --peer b/d", Misuse, "it is neither an IP address nor"},
		{"ndstat --interval 1ms", Misuse, "choose at least 100ms"},
		{"ndstat --socket " + missing, Failed, "socket " + missing + " does not exist: the process that made the socket ended, or closed its adapter"},
		{"ndinfo doctor lo --duration 1s", Misuse, "--duration is the time of --selftest"},
		{"ndinfo doctor lo --selftest --duration -1s", Misuse, "--duration -1s is not a positive duration"},
		{"ndinfo bugreport -o -", Misuse, "name a file"},
		{lend + "--socket x --mode ring --zero-copy", Misuse, "--zero-copy applies to AF_XDP sockets, which --mode ring does not lease"},
		{"ndperf client --addr bad", Misuse, "is not a unicast HOST:PORT"},
		{"ndperf client", Misuse, `required flag(s) "addr" not set`},
		{"ndperf loop --tests teleport", Misuse, "choose from write_lat"},
		{"ndperf report " + missing, Failed, "does not exist: make it with ndperf sweep"},
		{"ndperf fly", Misuse, `ndperf: unknown command "fly" (ndperf --help shows how)`},
		{"ndperf vet", Misuse, `ndperf: unknown command "vet": did you mean veth? (ndperf --help shows how)`},
		{"ndinfo docter", Misuse, `ndinfo: unknown command "docter": did you mean doctor? (`},
		{"ndinfo docter eth0", Misuse, `did you mean doctor? (`},
		{"ndstat captur", Misuse, `ndstat: unknown command "captur": did you mean capture? (`},
		{"ndcat 127.0.0.2:7000 " + missing, Failed, "no such file or directory: name a file that can be read, or none for standard input"},
	} {
		args := strings.Fields(c.args)
		o := run(t, args[0], args[1:]...)
		one := strings.Count(o.stderr, "\n") == 1 && strings.HasPrefix(o.stderr, args[0]+": ")
		if o.status != c.status || !one || o.stdout != "" || !strings.Contains(o.stderr, c.want) || strings.Contains(o.stderr, "goroutine") {
			t.Errorf("%s: %+v; want status %d and one line with %q", c.args, o, c.status, c.want)
		}
	}
}

// TestClosedPipe: if its reader goes away, a command ends without an error message, like other programs.
func TestClosedPipe(t *testing.T) {
	for _, name := range commandNames {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var stderr bytes.Buffer
		cmd := command(t, name, "--help")
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if o := ended(t, cmd); o.signal != syscall.SIGPIPE || stderr.Len() > 0 {
			t.Errorf("%s: %+v, %s", name, o, stderr.String())
		}
	}
}

// TestFullDisk: a command that cannot write its output reports that and fails. Otherwise a script would not notice an empty file.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"ndbroker --help", "ndinfo", "ndinfo --json", "ndinfo doctor lo", "ndperf register --sizes 64 --duration 1ms", "ndperf --version"} {
		words := strings.Fields(args)
		var stderr bytes.Buffer
		cmd := command(t, words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = full, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		want := words[0] + ": write /dev/stdout: no space left on device"
		if o := ended(t, cmd); o.status != Failed || strings.Count(stderr.String(), want) != 1 {
			t.Errorf("%s: %+v, %s; want status 1 and %q", args, o, stderr.String(), want)
		}
	}
}

// TestInterrupt: SIGINT ends a command that runs until then, with the documented exit status and without a stack trace.
func TestInterrupt(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // a user without a session has no runtime directory
	port, addr := netlabtest.FreePort(t), netlabtest.Loopback()
	watched, err := nd.OpenAdapter(nd.AdapterConfig{Address: addr[0], Datapath: nd.DatapathUDP, UDPPort: port})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	open, err := watched.Inspection()
	if err != nil {
		t.Fatal(err)
	}
	broker := filepath.Join(t.TempDir(), "broker")
	listen := []string{"-l", addr[1].String() + ":7000", "--datapath", "udp", "--udp-port", fmt.Sprint(port)}
	for _, c := range []struct {
		name   string
		args   []string
		first  string // first output of the running command
		status int
		said   string // output at the end
	}{
		{"ndbroker", []string{"--interface", "lo", "--allow-uid", "1", "--socket", broker}, "ndbroker: lo for uid 1 at", OK, ""},
		{"ndping", listen, "answering at", OK, ""},
		{"ndcat", listen, "waiting at", Failed, "ndcat: interrupted\n"},
		{"ndstat", []string{"--json", "--interval", "1h", "--socket", open}, "{", OK, ""},
	} {
		o, rest := interrupt(t, command(t, c.name, c.args...), c.first)
		if os.Geteuid() != 0 && strings.HasPrefix(rest, "ndbroker: every client will be refused: ") {
			_, rest, _ = strings.Cut(rest, "\n") // the second line, which is missing if the signal comes earlier
		}
		if o.status != c.status || rest != c.said {
			t.Errorf("%s: %+v, %q", c.name, o, rest)
		}
	}
	if _, err := os.Lstat(broker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ndbroker left its socket behind: %v", err)
	}
}

// TestStatSeesEveryProcess: ndstat shows a program that makes no preparations for it.
func TestStatSeesEveryProcess(t *testing.T) {
	port := netlabtest.FreePort(t)
	server := command(t, "ndping", "-l", netlabtest.Loopback()[0].String()+":7000", "--datapath", "udp", "--udp-port", fmt.Sprint(port))
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := []string{"--once", "--json", "--pid", fmt.Sprint(server.Process.Pid)}
	ndstat := command(t, "ndstat", pid...)
	ndstat.Env = server.Env // the directory of the same user
	if said, err := ndstat.Output(); err != nil || !strings.Contains(string(said), `"command":"ndping"`) {
		t.Errorf("%v: %s", err, said)
	}
}

// interrupt starts a command, interrupts it after its first line, and returns its further output.
func interrupt(t *testing.T, cmd *exec.Cmd, first string) (o outcome, rest string) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	text := bufio.NewReader(out)
	if line, err := text.ReadString('\n'); err != nil || !strings.HasPrefix(line, first) {
		t.Errorf("%v, %q; want %q", err, line, first)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	end, err := io.ReadAll(text)
	if err != nil {
		t.Error(err)
	}
	return ended(t, cmd), string(end)
}

// A command prints its version from the build alone, also if the working directory is in another repository.
func TestVersion(t *testing.T) {
	elsewhere := t.TempDir()
	git := exec.Command("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "--allow-empty", "-m", "x")
	for _, cmd := range []*exec.Cmd{exec.Command("git", "init", "-q"), git} {
		if cmd.Dir = elsewhere; cmd.Run() != nil {
			t.Skip("needs git, to stand in a repository")
		}
	}
	for _, name := range commandNames {
		want := run(t, name, "--version")
		if !regexp.MustCompile(`^`+name+` \S+, commit \S+, go\S+, linux/\w+\n$`).MatchString(want.stdout) || want.status != OK {
			t.Errorf("%s --version: %+v", name, want)
		}
		cmd := command(t, name, "--version")
		cmd.Dir = elsewhere
		if out, err := cmd.Output(); err != nil || string(out) != want.stdout {
			t.Errorf("%s --version in another repository: %q, %v; elsewhere %q", name, out, err, want.stdout)
		}
	}
}

// A shell closes standard files with >&- and <&-.
func TestClosedStandardFilesAreErrors(t *testing.T) {
	for redirection, c := range map[string]struct{ args, want string }{
		">&-": {"ndcat -l 127.0.0.2:7600 --datapath udp", "ndcat: standard output is closed"},
		"<&-": {"ndcat 127.0.0.2:7600 --datapath udp", "ndcat: standard input is closed"},
	} {
		dir, err := build()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", filepath.Join(dir, c.args)+" "+redirection)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s %s: %v: %s", c.args, redirection, err, &stderr)
		}
	}
}
