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

// ceilings has the two central objects. The aim is fewer than 25 fields and 60 methods for conn, and fewer than 40 and 50 for
// Engine: related fields move into an object of their own below provider/internal.
var ceilings = map[string]ceiling{
	"conn":   {fields: 10, methods: 60},
	"Engine": {fields: 14, methods: 47},
}

// flatCeilings hold the same two objects with everything that they embed, however deep. A field with a name hides its fields, so the way
// down is to name what is embedded.
var flatCeilings = map[string]ceiling{
	"conn":   {fields: 32, methods: 70},
	"Engine": {fields: 38, methods: 50},
}

// maxEmbedded bounds how many fields of package provider embed another struct of the package.
const maxEmbedded = 14

// maxProviderLines bounds the hand-written lines of package provider itself without tests, in the same way.
const maxProviderLines = 9240

// slack is how far a ceiling may exceed the actual size before it must be lowered, so that concurrent changes need not agree on it.
const slack = 10

// onlyOthers are packages of this module that another layer needs and the engine's own package does not, although its fence allows
// them: if only one object needs a package, that object imports it.
var onlyOthers = []string{"internal/crc32c", "internal/capture", "internal/hostkey", "internal/verbs", "internal/datapath"}

// counts are the fields and methods of the struct types of one package. A field that is embedded counts as one.
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

// flat are the fields and methods of the struct types of one package with those of embedded structs of the package. A struct that is
// embedded in several places counts once. embedded is how many fields embed a struct of the package.
func flat(sources []source, dir string) (of map[string]ceiling, embedded int) {
	own, _ := counts(sources, dir)
	inner := map[string][]string{}
	for _, s := range sources {
		if s.dir != dir || s.isTest() {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				inner[spec.Name.Name] = embeds(st)
			}
			return true
		})
	}
	of = map[string]ceiling{}
	for name, direct := range inner {
		for _, e := range direct {
			if _, ours := inner[e]; ours {
				embedded++
			}
		}
		seen := map[string]bool{}
		var c ceiling
		var visit func(string)
		visit = func(name string) {
			if seen[name] {
				return
			}
			seen[name] = true
			if n := own[name]; n != nil {
				c.fields, c.methods = c.fields+n.fields, c.methods+n.methods
			}
			for _, e := range inner[name] {
				if _, ours := inner[e]; ours {
					c.fields-- // the field is what it embeds
					visit(e)
				}
			}
		}
		visit(name)
		of[name] = c
	}
	return of, embedded
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
	whole, embedded := flat(sources, "provider")
	for name, c := range flatCeilings {
		hold("fields of "+name+" with all that it embeds", whole[name].fields, c.fields)
		hold("methods of "+name+" with all that it embeds", whole[name].methods, c.methods)
	}
	if embedded != maxEmbedded {
		t.Errorf("%d fields of provider embed a struct of the package, want %d: name the field, and lower maxEmbedded when one goes", embedded, maxEmbedded)
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

// The counter includes embedded fields, several names in a line, and methods of values and pointers in every file. It ignores
// tests.
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

// TestFlatCounts counts what is embedded, through several levels and pointers, and each struct once.
func TestFlatCounts(t *testing.T) {
	sources, err := parseTree(fstest.MapFS{"provider/a.go": &fstest.MapFile{Data: []byte(
		"package provider\n\ntype conn struct {\n\ta int\n\t*traffic\n\tbase\n\tnamed named\n\tother.Outer\n}\n\n" +
			"type traffic struct {\n\tbase\n\tb, c int\n}\n\ntype base struct{ d int }\n\ntype named struct{ e, f int }\n\n" +
			"func (c *conn) m() {}\n\nfunc (t *traffic) n() {}\n\nfunc (b base) o() {}\n\nfunc (n named) p() {}\n",
	)}})
	if err != nil {
		t.Fatal(err)
	}
	of, embedded := flat(sources, "provider")
	if got := fmt.Sprint(of["conn"], of["traffic"], embedded); got != "{6 3} {3 2} 3" {
		t.Error(got)
	}
}
