package page

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// chromium loads html in a browser without a network, and returns the browser's output.
func chromium(t *testing.T, html string, flags ...string) (out, log string) {
	t.Helper()
	binary, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed (apt-get install chromium)")
	}
	netlabtest.NeedRoot(t) // the browser gets a network namespace without a link
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(html), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--timeout=20000")
	cmd.Args = append(append(cmd.Args, flags...), "file://"+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, &stderr)
	}
	return stdout.String(), stderr.String()
}

// browse returns the document after it was loaded, and the messages of the console.
func browse(t *testing.T, html string, flags ...string) (dom, console string) {
	t.Helper()
	dom, log := chromium(t, html, append(flags, "--dump-dom")...)
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") && !strings.Contains(line, `", source: chrome://`) { // internal pages of the browser print messages too
			console += line
		}
	}
	return dom, console
}

func TestPageInChromium(t *testing.T) {
	told, older := golden(t), golden(t)
	told.Results[0].Limited = map[string]float64{"application": 0.125, "fabric": 0.875}
	told.Results[0].Drops = map[string]uint64{"duplicate": 4711}
	dom, console := browse(t, render(t, Source{"a.json", told}, Source{"b.json", older}))
	if console != "" {
		t.Errorf("the console says:\n%s", console)
	}
	for _, id := range []string{"headline", "environment", "comparison", "bounds", "plots", "limits", "parts", "figures"} {
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

// TestChromiumSeesScripts proves that the tests above would detect a script: the page's policy refuses it, and the console reports that.
func TestChromiumSeesScripts(t *testing.T) {
	html := strings.Replace(render(t, Source{"a.json", golden(t)}), "</body>", "<script>document.title='owned'</script></body>", 1)
	dom, console := browse(t, html)
	if !strings.Contains(console, "Content Security Policy") || !strings.Contains(dom, "<title>ndperf report</title>") {
		t.Errorf("a script was not refused; the console says:\n%s", console)
	}
}

// ask runs a script on the page, which otherwise refuses scripts, in a frame of the given width, and returns the script's result. A
// window of the browser itself has 500 pixels or more.
func ask(t *testing.T, html string, width int, script string, flags ...string) string {
	t.Helper()
	policy, rest, ok := strings.Cut(html, `<meta http-equiv="Content-Security-Policy"`)
	if !ok {
		t.Fatal("the page has no policy")
	}
	_, rest, _ = strings.Cut(rest, "\n")
	html = strings.Replace(policy+rest, "</body>", "<script>top.document.title = "+script+"</script></body>", 1)
	html = fmt.Sprintf(`<!DOCTYPE html><title></title><iframe width="%d" height="900" style="border:0" srcdoc="%s"></iframe>`, width, template.HTMLEscapeString(html))
	dom, console := browse(t, html, flags...)
	_, title, _ := strings.Cut(dom, "<title>")
	title, _, ok = strings.Cut(title, "</title>")
	if console != "" || !ok {
		t.Fatalf("the console says:\n%s", console)
	}
	return title
}

// TestPageFitsNarrowScreens: on 420 pixels nothing exceeds the screen, even with all folded parts open. Tables scroll in their own boxes.
func TestPageFitsNarrowScreens(t *testing.T) {
	long := sweep(t)
	long.Command = "ndperf sweep --json /" + strings.Repeat("directory/", 40)
	long.Host.CPU = strings.Repeat("ExampleCPU", 20)
	html := render(t, Source{strings.Repeat("name", 30) + ".json", long}, Source{"b.json", sweep(t)})
	html = strings.ReplaceAll(html, "<details>", "<details open>")
	const script = `innerWidth + ": " + [...document.querySelectorAll("body *")].filter(e => !e.parentElement.closest(".wide") &&
		e.getBoundingClientRect().right > innerWidth).map(e => e.tagName + " " + e.className).join(", ") + "; " +
		(document.documentElement.scrollWidth - innerWidth)`
	if title := ask(t, html, 420, script, "--hide-scrollbars"); title != "420: ; 0" {
		t.Errorf("width, elements that reach beyond it, and by how much the page scrolls: %q", title)
	}
}

// TestPlotsInChromium: with the fonts of a browser, no text of a plot overlaps another text, the edge of the picture, or the lines.
func TestPlotsInChromium(t *testing.T) {
	html := render(t, Source{"a.json", golden(t)})
	var plots strings.Builder
	for _, f := range figuresOf(t) {
		plots.Write(f.SVG)
	}
	html = strings.Replace(html, "</main>", plots.String()+"</main>", 1)
	const script = `(() => {
		const wrong = [];
		for (const svg of document.querySelectorAll("main > svg")) {
			const box = e => e.getBoundingClientRect(), frame = box(svg), axes = box(svg.querySelector("#axes"));
			const texts = [...svg.querySelectorAll("text")];
			const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
			texts.forEach((e, i) => {
				const b = box(e);
				if (b.left < frame.left || b.right > frame.right || b.bottom > frame.bottom) wrong.push(e.textContent + " leaves the picture");
				if (meet(b, axes)) wrong.push(e.textContent + " is in the axes");
				for (const f of texts.slice(i + 1)) if (meet(b, box(f))) wrong.push(e.textContent + " meets " + f.textContent);
			});
			if (meet(box(svg.querySelector("#legend")), axes)) wrong.push("the legend is in the axes");
			for (const l of svg.querySelectorAll(".series")) {
				const b = box(l);
				if (b.left < axes.left - 1 || b.right > axes.right + 1 || b.top < axes.top - 6 || b.bottom > axes.bottom + 6) wrong.push("a line leaves the axes");
			}
		}
		return document.querySelectorAll("main > svg").length + " plots: " + wrong.join(", ");
	})()`
	if title, want := ask(t, html, 1200, script), strconv.Itoa(len(figuresOf(t)))+" plots: "; title != want {
		t.Errorf("%q, want %q", title, want)
	}
}

// TestThemesInChromium: the page uses the reader's theme, and paper is light.
func TestThemesInChromium(t *testing.T) {
	html := render(t, Source{"a.json", golden(t)})
	for flag, want := range map[string]theme{"--blink-settings=preferredColorScheme=0": dark, "--blink-settings=preferredColorScheme=1": light} {
		if got := ask(t, html, 1200, `getComputedStyle(document.body).getPropertyValue("--paper")`, flag); got != want.paper {
			t.Errorf("%s: the paper is %q, want %q", flag, got, want.paper)
		}
	}
}

// TestPaper: a print shows the parts that are folded on the screen.
func TestPaper(t *testing.T) {
	html := render(t, Source{"a.json", sweep(t)})
	pages := func(html string) int {
		name := filepath.Join(t.TempDir(), "page.pdf")
		chromium(t, html, "--print-to-pdf="+name)
		pdf, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return len(regexp.MustCompile(`/Type /Page\b`).FindAll(pdf, -1))
	}
	if folded, open := pages(html), pages(strings.ReplaceAll(html, "<details>", "<details open>")); folded == 0 || folded != open {
		t.Errorf("%d pages, and %d if all is unfolded", folded, open)
	}
}
