// Package buildinfo reports which build of ndxdp a binary has. It uses only what the compiler wrote into the binary, and neither the
// working directory nor the environment.
package buildinfo

import (
	_ "embed"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the version of this source, or the next version if it is not released.
//
//go:embed VERSION
var release string

// archived is the commit of a source without version control, for example an archive of a release. packaging/dist.sh sets it when it
// links.
var archived string

// pseudo matches the version that the go command generates for a commit without a tag (go.dev/ref/mod#pseudo-versions).
var pseudo = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}\b`)

// Module is the import path of the library's module. Import paths of the repository's other modules begin with it.
const Module = "github.com/ndxdp/ndxdp"

// Unknown stands for a value that the build does not have.
const Unknown = "unknown"

// commitLen is the number of digits that are shown of a commit's name.
const commitLen = 12

// Info describes the ndxdp in a binary.
type Info struct {
	Version  string `json:"version"`  // the tag of the build; without a tag the next release and -dev; in a dependency the version of its module
	Commit   string `json:"commit"`   // the first digits of the commit's name, and -dirty if there are uncommitted changes; Unknown if ndxdp is a dependency
	Go       string `json:"go"`       // the compiler
	Platform string `json:"platform"` // GOOS/GOARCH
}

// Read returns the Info of this binary.
func Read() Info {
	info, _ := debug.ReadBuildInfo()
	return from(info)
}

func from(info *debug.BuildInfo) Info {
	i := Info{Version: Unknown, Commit: Unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return i
	}
	if main := info.Main.Path; main != Module && !strings.HasPrefix(main, Module+"/") { // a program that uses the library
		for _, d := range info.Deps {
			if d.Path == Module {
				i.Version = version(d)
			}
		}
		return i
	}
	i.Version = version(&info.Main)
	if i.Version == Unknown || pseudo.MatchString(i.Version) {
		i.Version = "v" + strings.TrimSpace(release) + "-dev"
	}
	if archived != "" {
		i.Commit = archived[:min(commitLen, len(archived))]
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			i.Commit = s.Value[:min(commitLen, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-dirty"
		}
	}
	if i.Commit != Unknown {
		i.Commit += modified
	}
	return i
}

func version(m *debug.Module) string {
	if m.Version == "" || m.Version == "(devel)" {
		return Unknown
	}
	return m.Version
}

// String returns the text of --version after the name of the command.
func (i Info) String() string {
	return fmt.Sprintf("%s, commit %s, %s, %s", i.Version, i.Commit, i.Go, i.Platform)
}
