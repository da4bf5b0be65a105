package ndxdp_test

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// workModules returns the modules of go.work: the directory of each by its import path.
func workModules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for _, use := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(string(text), -1) {
		dir := filepath.Clean(use[1])
		modules[strings.TrimSuffix(module+"/"+dir, "/.")] = dir
	}
	if len(modules) < 2 || modules[module] != "." {
		t.Fatalf("go.work uses %v", modules)
	}
	return modules
}

// nextVersion returns the version of the release that this source becomes.
func nextVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("internal/buildinfo/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return "v" + strings.TrimSpace(string(text))
}

// The modules of go.work require each other at the version of the next release, which go.work replaces by this checkout. They replace
// nothing themselves: `go install` of a command refuses modules that do.
func TestModulesRequireTheNextRelease(t *testing.T) {
	next, modules := nextVersion(t), workModules(t)
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for path, dir := range modules {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nmodule "+path+"\n") && !strings.HasPrefix(string(text), "module "+path+"\n") {
			t.Errorf("%s/go.mod is not of module %s", dir, path)
		}
		if regexp.MustCompile(`(?m)^replace\b`).Match(text) {
			t.Errorf("%s/go.mod replaces modules", dir)
		}
		for _, require := range regexp.MustCompile(`(?m)^\t(`+module+`\S*) (\S+)`).FindAllStringSubmatch(string(text), -1) {
			required[require[1]] = true
			if modules[require[1]] == "" || require[2] != next {
				t.Errorf("%s/go.mod requires %s at %s, want a module of go.work at %s", dir, require[1], require[2], next)
			}
		}
	}
	replaced := regexp.MustCompile(`(?m)^\t(`+module+`\S*) (\S+) => (\S+)$`).FindAllStringSubmatch(string(work), -1)
	for _, r := range replaced {
		if !required[r[1]] || r[2] != next || filepath.Clean(r[3]) != modules[r[1]] {
			t.Errorf("go.work replaces %s at %s by %s", r[1], r[2], r[3])
		}
		delete(required, r[1])
	}
	for path := range required {
		t.Errorf("go.work does not replace %s at %s", path, next)
	}
}

// released writes the modules of go.work as a module proxy has them after the next release, and returns an environment in which the go command
// finds them there. Other modules come from the module cache, or as usual when they are not in it.
func released(t *testing.T) []string {
	t.Helper()
	proxy, version := t.TempDir(), nextVersion(t)
	for path, dir := range workModules(t) {
		at := filepath.Join(proxy, path, "@v")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"list": version + "\n", version + ".mod": string(mod), version + ".info": `{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`,
		} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		zipModule(t, filepath.Join(at, version+".zip"), dir, path+"@"+version)
	}
	cache := strings.TrimSpace(goCommand(t, ".", nil, "env", "GOMODCACHE"))
	usual := strings.TrimSpace(goCommand(t, ".", nil, "env", "GOPROXY"))
	return []string{
		"GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOMODCACHE=" + t.TempDir(), "GOBIN=" + t.TempDir(),
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", proxy, cache, usual),
	}
}

// zipModule writes the files of the module in dir. It leaves out modules in subdirectories, test data and build results.
func zipModule(t *testing.T, file, dir, prefix string) {
	t.Helper()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	z := zip.NewWriter(out)
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(dir, path, "go.mod"))
			if path != "." && (nested == nil || strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "bars", "dist", "testdata"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		w, err := z.Create(prefix + "/" + path)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goCommand runs the go command in dir and returns what it prints.
func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// A program that imports nd and nd/ndnet gets the modules that it links, and no other.
func TestImportersGetWhatTheyLink(t *testing.T) {
	env, dir, version := released(t), t.TempDir(), nextVersion(t)
	program := "package main\n\nimport (\n\t_ \"" + module + "/nd\"\n\t_ \"" + module + "/nd/ndnet\"\n)\n\nfunc main() {}\n"
	for name, text := range map[string]string{"go.mod": "module example.org/program\n\ngo 1.26.0\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, dir, env, "mod", "edit", "-require", module+"@"+version)
	sorted := func(text string) []string { return slices.Compact(slices.Sorted(strings.FieldsSeq(text))) }
	all := sorted(goCommand(t, dir, append(env, "GOFLAGS=-mod=mod -modcacherw"), "list", "-m", "-f", "{{.Path}}", "all"))
	goCommand(t, dir, env, "get", module+"/nd@"+version, module+"/nd/ndnet@"+version)
	linked := sorted(goCommand(t, dir, env, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	if !slices.Equal(all, linked) {
		t.Errorf("the modules of the program are %q, and it links %q", all, linked)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, require := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v`).FindAllStringSubmatch(string(mod), -1) {
		if !slices.Contains(linked, require[1]) {
			t.Errorf("go get requires %s, which the program does not link", require[1])
		}
	}
}

// The README's line installs each command from the released modules.
func TestCommandsInstall(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile("`go install (" + module + `\S+@latest)` + "`").FindStringSubmatch(string(readme))
	if pattern == nil {
		t.Fatal("README.md installs no commands")
	}
	install := exec.CommandContext(t.Context(), "go", "install", "-n", pattern[1])
	install.Dir, install.Env = t.TempDir(), append(os.Environ(), released(t)...)
	said, err := install.CombinedOutput() // the commands that it would run
	if err != nil {
		t.Fatalf("%v: %v\n%s", install.Args, err, said)
	}
	commands, err := filepath.Glob("cmd/nd*")
	if err != nil || len(commands) < 6 {
		t.Fatal(commands, err)
	}
	for _, dir := range commands {
		if !regexp.MustCompile(`(?m)^mv \S+ \S+/` + filepath.Base(dir) + `$`).Match(said) {
			t.Errorf("%s installs no %s", pattern[0], filepath.Base(dir))
		}
	}
}
