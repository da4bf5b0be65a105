package ndxdp_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPublicPackagesHaveExamples checks that pkg.go.dev shows an example of each public package.
func TestPublicPackagesHaveExamples(t *testing.T) {
	sources, err := parseTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	without := slices.Clone(publicPackages)
	for _, s := range sources {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") {
				without = slices.DeleteFunc(without, func(dir string) bool { return dir == s.dir })
			}
		}
	}
	for _, dir := range without {
		t.Errorf("%s has no example", dir)
	}
}
