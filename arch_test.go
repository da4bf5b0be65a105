package ndxdp_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is the prefix of our own import paths; rules below name our packages by directory.
const module = "github.com/ndxdp/ndxdp"

// Limits on size. A file or function that outgrows them holds more than one idea.
const (
	maxFileLines = 500
	maxFuncLines = 70
)

// testExtras is what test files may import on top of their package's fence.
var testExtras = fence{
	ours: []string{"internal/testhelp", "internal/netlab", "internal/netlab/netlabtest", "internal/conformance", "internal/netlab/impair", "provider/sim", "xdp/xdptest", "internal/clock"},
	theirs: []string{
		"golang.org/x/sys/unix", "github.com/vishvananda/netlink/...", "github.com/vishvananda/netns", "github.com/cilium/ebpf/...",
	},
}

// fenceOf returns the fence of dir. A command or an example without an entry has the fence of its parent.
func fenceOf(dir string) (fence, bool) {
	if parent, _, found := strings.Cut(dir, "/"); found && (parent == "cmd" || parent == "examples") {
		if _, own := fences[dir]; !own {
			dir = parent + "/"
		}
	}
	f, ok := fences[dir]
	return f, ok
}

// source is one parsed Go file.
type source struct {
	dir, name string
	lines     int
	fset      *token.FileSet
	ast       *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", path.Join(s.dir, s.name), s.fset.Position(p).Line)
}

// checkTree returns every violation of the layout rules in tree, sorted.
func checkTree(tree fs.FS) ([]string, error) {
	sources, err := parseTree(tree)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, s := range sources {
		bad = append(bad, checkImports(s)...)
		bad = append(bad, checkSizes(s)...)
		bad = append(bad, checkCalls(s)...)
	}
	bad = append(bad, checkPackages(sources)...)
	slices.Sort(bad)
	return bad, nil
}

// parseTree reads all hand-written Go files; generated ones, modules outside of go.work and testdata are exempt.
func parseTree(tree fs.FS) ([]source, error) {
	var sources []source
	work, err := fs.ReadFile(tree, "go.work")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, modErr := fs.Stat(tree, path.Join(p, "go.mod"))
			nested := p != "." && modErr == nil && !strings.Contains(string(work), "\n\t./"+p+"\n")
			hidden := p != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_"))
			if nested || hidden || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's temporary file that vanished
		}
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		lines := strings.Count(string(text), "\n")
		sources = append(sources, source{path.Dir(p), path.Base(p), lines, fset, file})
		return nil
	})
	return sources, err
}

func checkImports(s source) []string {
	if s.dir == "." {
		return nil // the root holds only tests
	}
	own, ok := fenceOf(s.dir)
	if !ok {
		return []string{fmt.Sprintf("%s: directory %q has no fence in arch_test.go", s.at(s.ast.Package), s.dir)}
	}
	var bad []string
	for _, imp := range s.ast.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: unreadable import %s", s.at(imp.Pos()), imp.Path.Value))
			continue
		}
		if why := refuse(s, own, target); why != "" {
			bad = append(bad, fmt.Sprintf("%s: %s may not import %s: %s", s.at(imp.Pos()), s.dir, target, why))
		}
	}
	return bad
}

// refuse returns the reason why s may not import target, or "".
func refuse(s source, own fence, target string) string {
	inner, ours := strings.CutPrefix(target, module+"/")
	first, _, _ := strings.Cut(target, "/")
	switch {
	case ours:
		if inner == s.dir { // an external test of its own package
			return ""
		}
		allowed := listed(own.ours, inner) || s.isTest() && (slices.Contains(testExtras.ours, inner) || slices.Contains(own.tests, inner))
		if !allowed {
			return "not inside its fence"
		}
		if f, ok := fenceOf(inner); ok && f.usedBy != nil && !s.isTest() && !listed(f.usedBy, s.dir) {
			return "only " + strings.Join(f.usedBy, ", ") + " and tests may"
		}
	case target == "unsafe":
		// These packages exchange structs and memory with the kernel, or with C programs, for which Go has no safe form.
		if !slices.Contains([]string{"xdp", "internal/udp", "internal/rxring", "internal/broker", "internal/procmap", "capi"}, s.dir) {
			return "unsafe lives in xdp, internal/udp, internal/rxring, internal/broker, internal/procmap and capi and nowhere else"
		}
	case !strings.Contains(first, "."):
		if slices.Contains(own.noStd, target) && !s.isTest() {
			return "this part of the standard library is refused here"
		}
	default:
		if !matches(own.theirs, target) && (!s.isTest() || !matches(testExtras.theirs, target) && !matches(own.tests, target)) {
			return "not inside its fence"
		}
	}
	return ""
}

// listed reports whether dirs has dir, or a parent of it that ends in "/".
func listed(dirs []string, dir string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		return dir == d || strings.HasSuffix(d, "/") && strings.HasPrefix(dir, d)
	})
}

func matches(patterns []string, target string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		root, tree := strings.CutSuffix(p, "/...")
		return target == root || tree && strings.HasPrefix(target, root+"/")
	})
}

func checkSizes(s source) []string {
	var bad []string
	if s.lines >= maxFileLines {
		bad = append(bad, fmt.Sprintf("%s: %d lines, the limit is under %d", s.at(s.ast.Package), s.lines, maxFileLines))
	}
	for _, d := range s.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
		if n >= maxFuncLines {
			bad = append(bad, fmt.Sprintf("%s: function %s has %d lines, the limit is under %d",
				s.at(fn.Pos()), fn.Name.Name, n, maxFuncLines))
		}
	}
	return bad
}

// checkCalls finds forbidden calls: go:linkname anywhere, the machine's clock and global randomness in the engine.
func checkCalls(s source) []string {
	var bad []string
	for _, group := range s.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:"+"linkname ") {
				bad = append(bad, s.at(c.Pos())+": go:linkname is forbidden")
			}
		}
	}
	own, _ := fenceOf(s.dir)
	if !own.noClock || s.isTest() {
		return bad
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		if reason := impure(importedAs(s.ast, pkg.Name), sel.Sel.Name); reason != "" {
			bad = append(bad, fmt.Sprintf("%s: %s.%s: %s", s.at(sel.Pos()), pkg.Name, sel.Sel.Name, reason))
		}
		return true
	})
	return bad
}

// impure returns the reason why the engine may not use pkg.name, or "".
func impure(pkg, name string) string {
	switch pkg {
	case "time":
		if slices.Contains([]string{
			"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker",
		}, name) {
			return "time enters the engine as an argument"
		}
	case "math/rand", "math/rand/v2":
		// Constructors and type names are used to make a seeded source. All other names use the global source.
		if !strings.HasPrefix(name, "New") &&
			!slices.Contains([]string{"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}, name) {
			return "randomness enters the engine as a seeded source"
		}
	}
	return ""
}

// importedAs returns the import path that file knows as name, or "".
func importedAs(file *ast.File, name string) string {
	for _, imp := range file.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(strings.TrimSuffix(target, "/v2"))
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local == name {
			return target
		}
	}
	return ""
}

// checkPackages checks that every package has a doc.go with a comment and a fitting name, and that only bench imports asavie/xdp.
func checkPackages(sources []source) []string {
	documented := map[string]bool{}
	production := map[string]int{} // number of files that are not tests
	var bad []string
	for _, s := range sources {
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, s.ast.Name.Name) {
			bad = append(bad, fmt.Sprintf("%s: package name %q says nothing", s.at(s.ast.Package), s.ast.Name.Name))
		}
		if s.isTest() {
			continue
		}
		production[s.dir]++
	}
	for _, s := range sources {
		// A package of one file needs no second one for its comment.
		if !s.isTest() && s.ast.Doc != nil && (s.name == "doc.go" || production[s.dir] == 1) {
			documented[s.dir] = true
		}
	}
	for dir := range production {
		if !documented[dir] {
			bad = append(bad, dir+": no doc.go with a package comment")
		}
	}
	return bad
}

func TestArchitecture(t *testing.T) {
	bad, err := checkTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bad {
		t.Error(b)
	}
}

// TestArchitectureCheckerFails checks that each rule finds its violation, on a small tree that violates every rule once.
func TestArchitectureCheckerFails(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tree := fstest.MapFS{
		"wire/doc.go":     file("// Package wire.\npackage wire\n"),
		"wire/a.go":       file("package wire\n\nimport _ \"net\"\n"),
		"wire/b.go":       file("package wire\n\nimport _ \"" + module + "/nd\"\n"),
		"nd/a.go":         file("package nd\n\nimport _ \"unsafe\"\n"),
		"bpf/doc.go":      file("// Package bpf.\npackage bpf\n"),
		"bpf/a.go":        file("package bpf\n\nimport _ \"github.com/asavie/xdp\"\n"),
		"bpf/b.go":        file("package bpf\n\n//go:" + "linkname x y\nfunc x()\n"),
		"provider/doc.go": file("// Package provider.\npackage provider\n"),
		"provider/a.go":   file("package provider\n\nimport \"time\"\n\nvar t = time.Now()\n"),
		"provider/b.go":   file("package provider\n\nimport \"math/rand/v2\"\n\nvar r = rand.IntN(3)\n"),
		"provider/ok.go":  file("package provider\n\nimport \"math/rand/v2\"\n\nvar ok = rand.New(rand.NewPCG(1, 2))\n"),
		"provider/ok2.go": file("package provider\n\nimport (\n\t_ \"net/netip\"\n\t_ \"" + module + "/wire\"\n)\n"),
		"common/doc.go":   file("// Package common.\npackage common\n"),
		"xdp/doc.go":      file("// Package xdp.\npackage xdp\n\nimport _ \"unsafe\"\n"),
		"xdp/gen.go": file("// Code generated by x. DO NOT EDIT.\n\npackage xdp\n\nimport _ \"" +
			module + "/nd\"\n"),
		"xdp/long.go":  file("package xdp\n" + strings.Repeat("\n", maxFileLines)),
		"xdp/func.go":  file("package xdp\n\nfunc f() {\n" + strings.Repeat("\n", maxFuncLines-2) + "}\n"),
		"xdp/short.go": file("package xdp\n\nfunc g() {\n" + strings.Repeat("\n", maxFuncLines-3) + "}\n"),
	}
	got, err := checkTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`bpf/a.go:3: bpf may not import github.com/asavie/xdp: not inside its fence`,
		`bpf/b.go:3: go:linkname is forbidden`,
		`common/doc.go:2: directory "common" has no fence in arch_test.go`,
		`common/doc.go:2: package name "common" says nothing`,
		`nd/a.go:3: nd may not import unsafe: unsafe lives in xdp, internal/udp, internal/rxring, internal/broker, internal/procmap and capi and nowhere else`,
		`nd: no doc.go with a package comment`,
		`provider/a.go:5: time.Now: time enters the engine as an argument`,
		`provider/b.go:5: rand.IntN: randomness enters the engine as a seeded source`,
		`wire/a.go:3: wire may not import net: this part of the standard library is refused here`,
		`wire/b.go:3: wire may not import github.com/ndxdp/ndxdp/nd: not inside its fence`,
		`xdp/func.go:3: function f has 70 lines, the limit is under 70`,
		`xdp/long.go:1: 501 lines, the limit is under 500`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("violations found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
