package page

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// browse loads html in a browser without a network, and returns the document as it stands then and what the console said.
func browse(t *testing.T, html string) (dom, console string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed (apt-get install chromium)")
	}
	netlabtest.NeedRoot(t) // the browser gets a network namespace without a link
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(html), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--timeout=20000", "--dump-dom", "file://"+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, &stderr)
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			console += line
		}
	}
	return stdout.String(), console
}

func TestPageInChromium(t *testing.T) {
	told, older := golden(t), golden(t)
	told.Results[0].Limited = map[string]float64{"application": 0.125, "fabric": 0.875}
	told.Results[0].Drops = map[string]uint64{"duplicate": 4711}
	dom, console := browse(t, render(t, Source{"a.json", told}, Source{"b.json", older}))
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	for _, id := range []string{"environment", "comparison", "bounds", "plots", "limits", "parts", "figures"} {
		if !strings.Contains(dom, `<section id="`+id+`">`) {
			t.Errorf("section %s is missing", id)
		}
	}
	for _, text := range []string{"application&nbsp;12.5&nbsp;%", "fabric&nbsp;87.5&nbsp;%", "duplicate&nbsp;4711", "not recorded</td><td></td>", `role="img" aria-label="queueing 73 %, wire 4 %, remote hold 22 %, completion 2 %"><rect`} {
		if !strings.Contains(dom, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

func TestHostilePageInChromium(t *testing.T) {
	dom, console := browse(t, render(t, hostile(t)))
	if console != "" || !strings.Contains(dom, "<title>ndperf report</title>") {
		t.Errorf("something ran or was refused; the console says:\n%s", console)
	}
}

// TestChromiumSeesScripts proves that the tests above would notice: the page's own policy refuses a script and says so.
func TestChromiumSeesScripts(t *testing.T) {
	html := strings.Replace(render(t, Source{"a.json", golden(t)}), "</body>", "<script>document.title='owned'</script></body>", 1)
	dom, console := browse(t, html)
	if !strings.Contains(console, "Content Security Policy") || !strings.Contains(dom, "<title>ndperf report</title>") {
		t.Errorf("a script was not refused; the console says:\n%s", console)
	}
}
