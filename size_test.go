package ndxdp_test

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// ceiling is the maximum size of an object of package provider. When an object gets smaller, lower its number here. Never raise a number.
type ceiling struct{ fields, methods int }

// ceilings has the two central objects. The aim is at most 40 fields and 70 methods for conn, and 40 and 50 for Engine: related fields
// move into an object of their own, as a field with a name.
var ceilings = map[string]ceiling{
	"conn":   {fields: 32, methods: 70},
	"Engine": {fields: 38, methods: 50},
}

// maxProviderLines bounds the hand-written lines of package provider itself without tests, in the same way.
const maxProviderLines = 10700

// slack is how far a ceiling may exceed the actual size before it must be lowered, so that concurrent changes need not agree on it.
const slack = 10

// onlyOthers are packages of this module that another layer needs and the engine's own package does not, although its fence allows
// them: if only one object needs a package, that object imports it.
var onlyOthers = []string{"internal/crc32c", "internal/capture", "internal/hostkey", "internal/verbs", "internal/datapath"}

// counts are the fields and methods of the struct types of one package.
func counts(sources []source, dir string) (of map[string]*ceiling, lines int) {
	of = map[string]*ceiling{}
	get := func(name string) *ceiling {
		if of[name] == nil {
			of[name] = new(ceiling)
		}
		return of[name]
	}
	for _, s := range sources {
		if s.dir != dir || s.isTest() {
			continue
		}
		lines += s.lines
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					t, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if st, ok := t.Type.(*ast.StructType); ok {
						for _, f := range st.Fields.List {
							get(t.Name.Name).fields += max(len(f.Names), 1)
						}
					}
				}
			case *ast.FuncDecl:
				if d.Recv == nil {
					continue
				}
				recv := d.Recv.List[0].Type
				if p, ok := recv.(*ast.StarExpr); ok {
					recv = p.X
				}
				if id, ok := recv.(*ast.Ident); ok {
					get(id.Name).methods++
				}
			}
		}
	}
	return of, lines
}

// embedded lists the fields of one package's structs that embed a struct of the package. An embedded struct hides how large an object is,
// and where a method's data are.
func embedded(sources []source, dir string) (found []string) {
	inner := map[string][]string{}
	for _, s := range sources {
		if s.dir != dir || s.isTest() {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					inner[spec.Name.Name] = embeds(st)
				}
			}
			return true
		})
	}
	for name, direct := range inner {
		for _, e := range direct {
			if _, ours := inner[e]; ours {
				found = append(found, name+" embeds "+e)
			}
		}
	}
	slices.Sort(found)
	return found
}

// embeds lists the types that a struct embeds, of its own package.
func embeds(st *ast.StructType) (names []string) {
	for _, f := range st.Fields.List {
		t := f.Type
		if p, ok := t.(*ast.StarExpr); ok {
			t = p.X
		}
		if id, ok := t.(*ast.Ident); ok && len(f.Names) == 0 {
			names = append(names, id.Name)
		}
	}
	return names
}

// TestEngineGrowsNoMore: conn, Engine and package provider do not exceed their present sizes.
func TestEngineGrowsNoMore(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	of, lines := counts(sources, "provider")
	hold := func(what string, is, limit int) {
		switch {
		case is > limit:
			t.Errorf("%s: %d, the ceiling is %d: give what is new an object of its own", what, is, limit)
		case is+slack < limit:
			t.Errorf("%s: %d: lower the ceiling of %d in size_test.go, so that it stays there", what, is, limit)
		}
	}
	for name, c := range ceilings {
		hold("fields of "+name, of[name].fields, c.fields)
		hold("methods of "+name, of[name].methods, c.methods)
	}
	for _, what := range embedded(sources, "provider") {
		t.Errorf("provider: %s: give the field a name, so that a call says whose method it is", what)
	}
	if lines > maxProviderLines {
		t.Errorf("provider has %d lines, the ceiling is %d: give what is new a package of its own", lines, maxProviderLines)
	}
	for _, s := range sources {
		if s.dir != "provider" || s.isTest() {
			continue
		}
		for _, imp := range s.ast.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if inner, ours := strings.CutPrefix(target, module+"/"); err != nil || ours && slices.Contains(onlyOthers, inner) {
				t.Errorf("%s imports %s, which only another layer needs", path.Join(s.dir, s.name), target)
			}
		}
	}
}

// leastPackageLines is how many lines a package of the engine has that only the engine uses. Less is a file of the engine.
const leastPackageLines = 100

// TestFilesOfTheEngine: the documentation of package provider lists its files by topic, and small packages below it are files of it.
func TestFilesOfTheEngine(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("provider/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		lines[s.dir] += s.lines
		if s.dir == "provider" && s.name != "doc.go" && !strings.Contains(string(doc), " "+s.name) {
			t.Errorf("provider/doc.go does not list %s", s.name)
		}
	}
	for dir, f := range fences {
		if strings.HasPrefix(dir, "provider/internal/") && slices.Equal(f.usedBy, []string{"provider"}) && lines[dir] < leastPackageLines {
			t.Errorf("%s has %d lines and one user: make it a file of package provider", dir, lines[dir])
		}
	}
}

// TestWorkRunsWithTraffic: conn.withTraffic alone makes a connection ready for work and applies the work's wants. newConn makes the first
// traffic of a connection.
func TestWorkRunsWithTraffic(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for _, s := range sources {
		if s.dir != "provider" || s.isTest() {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
						calls[sel.Sel.Name] = append(calls[sel.Sel.Name], f.Name.Name)
					}
				}
				return true
			})
		}
	}
	for method, callers := range map[string][]string{
		"leaveIdle": {"newConn", "withTraffic"}, "apply": {"withTraffic"},
	} {
		if !slices.Equal(calls[method], callers) {
			t.Errorf("%s is called in %v, want %v: run the work in withTraffic", method, calls[method], callers)
		}
	}
}

// Upper layers get the objects below provider only through provider: no other package may import them.
func TestObjectsStayBeneathProvider(t *testing.T) {
	for dir, f := range fences {
		if !strings.HasPrefix(dir, "provider/internal/") {
			continue
		}
		for _, user := range f.usedBy {
			if user != "provider" && !strings.HasPrefix(user, "provider/internal/") {
				t.Errorf("%s may be imported by %s", dir, user)
			}
		}
		if f.usedBy == nil || !f.noClock {
			t.Errorf("%s has no list of who may import it, or may read a clock", dir)
		}
		for _, ours := range f.ours {
			if ours == "provider" {
				t.Errorf("%s may import the engine", dir)
			}
		}
	}
}

// The counter includes several names in a line, and methods of values and pointers in every file. It ignores tests.
func TestCounts(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	sources, err := parseTree(fstest.MapFS{
		"provider/a.go":      file("package provider\n\ntype conn struct {\n\ta, b int\n\t*traffic\n}\n\nfunc (c *conn) f() {}\n"),
		"provider/b.go":      file("package provider\n\nfunc (c conn) g() {}\n\nfunc h() {}\n"),
		"provider/b_test.go": file("package provider\n\nfunc (c conn) t() {}\n"),
		"other/a.go":         file("package other\n\ntype conn struct{ x int }\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	of, lines := counts(sources, "provider")
	if got := fmt.Sprint(*of["conn"], lines); got != "{3 2} 13" {
		t.Error(got)
	}
}

// Embedded structs of the package are found by value and by pointer. Named fields, interfaces and structs of other packages are allowed.
func TestEmbeddedStructsAreFound(t *testing.T) {
	sources, err := parseTree(fstest.MapFS{"provider/a.go": &fstest.MapFile{Data: []byte(
		"package provider\n\ntype conn struct {\n\ta int\n\t*traffic\n\tnamed named\n\tother.Outer\n\tface\n}\n\n" +
			"type traffic struct {\n\tnamed\n\tb int\n}\n\ntype named struct{ c int }\n\ntype face interface{ m() }\n",
	)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(embedded(sources, "provider"), "; "); got != "conn embeds traffic; traffic embeds named" {
		t.Error(got)
	}
}
