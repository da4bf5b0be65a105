package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// The version comes from the build information, wherever the module stands in it.
func TestFrom(t *testing.T) {
	main := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: Module, Version: version}, Settings: settings}
	}
	next := "v" + strings.TrimSpace(release) + "-dev"
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for name, c := range map[string]struct {
		info            *debug.BuildInfo
		version, commit string
	}{
		"a release":       {main("v1.2.3", revision), "v1.2.3", "0123456789ab"},
		"changed":         {main("v1.2.3+dirty", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "v1.2.3+dirty", "0123456789ab-dirty"},
		"behind a tag":    {main("v1.2.4-0.20261126101112-0123456789ab", revision), next, "0123456789ab"},
		"without a tag":   {main("v0.0.0-20261126101112-0123456789ab+dirty", revision), next, "0123456789ab"},
		"candidate":       {main("v1.2.4-rc.1", revision), "v1.2.4-rc.1", "0123456789ab"},
		"not changed":     {main("v1.2.3", debug.BuildSetting{Key: "vcs.modified", Value: "false"}, revision), "v1.2.3", "0123456789ab"},
		"no repository":   {main("(devel)", debug.BuildSetting{Key: "vcs.modified", Value: "true"}), next, Unknown},
		"short":           {main("v1.2.3", debug.BuildSetting{Key: "vcs.revision", Value: "0123"}), "v1.2.3", "0123"},
		"a command":       {&debug.BuildInfo{Main: debug.Module{Path: Module + "/cmd", Version: "v1.2.3"}, Deps: []*debug.Module{{Path: Module, Version: "v1.2.2"}}}, "v1.2.3", Unknown},
		"go run":          {&debug.BuildInfo{Main: debug.Module{Path: Module + "/cmd", Version: "(devel)"}, Deps: []*debug.Module{{Path: Module, Version: "(devel)"}}}, next, Unknown},
		"another's name":  {&debug.BuildInfo{Main: debug.Module{Path: Module + "other", Version: "v1.2.3"}}, Unknown, Unknown},
		"a dependency":    {&debug.BuildInfo{Main: debug.Module{Path: "example.org/app", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: "x", Version: "v2.0.0"}, {Path: Module, Version: "v1.2.3"}}, Settings: []debug.BuildSetting{revision}}, "v1.2.3", Unknown},
		"no build at all": {nil, Unknown, Unknown},
	} {
		got := from(c.info)
		want := Info{c.version, c.commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if text := got.String(); text != c.version+", commit "+c.commit+", "+want.Go+", "+want.Platform {
			t.Errorf("%s: %q", name, text)
		}
	}
	if Read().Go == "" {
		t.Error("this binary knows nothing")
	}
}
