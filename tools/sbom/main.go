// Command sbom writes what a Go binary was built from as a CycloneDX document: the modules that the linker took, with their versions and
// checksums, as the binary itself says. The same binary gives the same document.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	root := component(&info.Main)
	root.Type = cdx.ComponentTypeApplication
	root.Name = filepath.Base(file)
	bom.Metadata = &cdx.Metadata{Component: &root}
	std := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}
	std.BOMRef = std.PackageURL
	components, refs := []cdx.Component{std}, []string{std.BOMRef}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if d.Version == "(devel)" { // a module of the same checkout
			d.Version = info.Main.Version
		}
		c := component(d)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	e := cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON)
	return e.SetPretty(true).Encode(bom)
}

func component(m *debug.Module) cdx.Component {
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version}
	c.BOMRef = c.PackageURL
	// h1: is the base64 of a SHA-256 over the files of the module.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
