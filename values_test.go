package ndxdp_test

import (
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestConstantsShowValues checks that go doc shows the values of exported constants, and not the names of inner constants.
func TestConstantsShowValues(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	for _, s := range sources {
		if s.isTest() || !slices.Contains(publicPackages, s.dir) {
			continue
		}
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || !v.Names[0].IsExported() {
					continue
				}
				constants++
				for _, value := range v.Values {
					ast.Inspect(value, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok && !id.IsExported() && id.Name != "iota" {
							t.Errorf("%s/%s: go doc shows %s as %s, not as a value", s.dir, s.name, v.Names[0], id.Name)
						}
						return true
					})
				}
			}
		}
	}
	if constants < 100 {
		t.Errorf("only %d constants were looked at", constants)
	}
}

// TestStatusesAreReturned checks that code outside of the lists of numbers and texts uses each status.
func TestStatusesAreReturned(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for dir, prefix := range map[string]string{"nd": "Err", "nd/ndk": "Status"} {
		declared, used := map[string]bool{}, map[string]int{}
		for _, s := range sources {
			if s.dir != dir || s.isTest() {
				continue
			}
			ast.Inspect(s.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Status" && strings.HasPrefix(n.Names[0].Name, prefix) {
						declared[n.Names[0].Name] = true
					}
					return n.Names[0].Name != "statusText"
				case *ast.Ident:
					used[n.Name]++
				}
				return true
			})
		}
		if len(declared) < 25 {
			t.Errorf("%s declares only %d statuses", dir, len(declared))
		}
		for name := range declared {
			if used[name] < 2 { // the declaration is one use
				t.Errorf("nothing in %s returns %s", dir, name)
			}
		}
	}
}
