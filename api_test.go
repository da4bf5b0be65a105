package ndxdp_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "rewrite api/*.txt with what the packages export")

// publicPackages are the packages whose exported names users may rely on (docs/COMPATIBILITY.md). All others may change at any
// time.
var publicPackages = []string{"nd", "nd/ndk", "nd/ndnet", "nd/ndcapture", "nd/ndinspect", "nd/ndtls", "nd/ndmetrics", "nd/ndhealth"}

// The exported names of the public packages are listed in api/*.txt, so that a review sees every change.
func TestAPI(t *testing.T) {
	imported := exportData(t)
	for _, dir := range publicPackages {
		pkg, err := imported.Import(module + "/" + dir)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		got := strings.Join(exported(pkg), "\n") + "\n"
		file := filepath.Join("api", strings.ReplaceAll(dir, "/", "-")+".txt")
		if *updateAPI {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range changes(strings.Split(string(want), "\n"), strings.Split(got, "\n")) {
			t.Errorf("%s: %s", file, change)
		}
	}
	if t.Failed() {
		t.Log("if the change is meant: go test . -run TestAPI -update-api, and say why in the commit")
	}
}

// exportData returns an importer that reads the compiler's export data of each package.
func exportData(t *testing.T) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	for _, dir := range publicPackages {
		args = append(args, "./"+dir)
	}
	var stderr bytes.Buffer
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// exported returns a line for each exported name of a package, for each exported field and for each method, in order.
func exported(pkg *types.Package) (lines []string) {
	short := func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return p.Name()
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			lines = append(lines, fmt.Sprintf("const %s %s = %s", name, types.TypeString(object.Type(), short), object.Val()))
		case *types.TypeName:
			lines = append(lines, exportedType(object, short)...)
		default:
			lines = append(lines, types.ObjectString(object, short))
		}
	}
	slices.Sort(lines)
	return lines
}

// exportedType returns the lines of a type: its kind, its exported fields or methods, and the methods of its pointer.
func exportedType(object *types.TypeName, short types.Qualifier) (lines []string) {
	name := object.Name()
	if object.IsAlias() {
		return []string{fmt.Sprintf("type %s = %s", name, types.TypeString(types.Unalias(object.Type()), short))}
	}
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		lines = append(lines, fmt.Sprintf("type %s struct", name))
		for field := range under.Fields() {
			if field.Exported() {
				lines = append(lines, fmt.Sprintf("type %s struct, %s %s", name, field.Name(), types.TypeString(field.Type(), short)))
			}
		}
	case *types.Interface:
		lines = append(lines, fmt.Sprintf("type %s interface", name))
		for method := range under.Methods() {
			if method.Exported() {
				lines = append(lines, fmt.Sprintf("type %s interface, %s%s", name, method.Name(), signature(method, short)))
			}
		}
		return lines
	default:
		lines = append(lines, fmt.Sprintf("type %s %s", name, types.TypeString(under, short)))
	}
	methods := types.NewMethodSet(types.NewPointer(object.Type()))
	for selection := range methods.Methods() {
		if method, ok := selection.Obj().(*types.Func); ok && method.Exported() {
			receiver := types.TypeString(method.Signature().Recv().Type(), short)
			lines = append(lines, fmt.Sprintf("method (%s) %s%s", receiver, method.Name(), signature(method, short)))
		}
	}
	return lines
}

func signature(method *types.Func, short types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(method.Type(), short), "func")
}

// changes returns the lines that only one of the two sorted lists has.
func changes(want, got []string) (all []string) {
	for _, line := range want {
		if !slices.Contains(got, line) {
			all = append(all, "gone: "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			all = append(all, "new: "+line)
		}
	}
	return all
}
