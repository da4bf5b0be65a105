package bench

import (
	"bytes"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/buildinfo"
)

// Host describes the machine of a measurement.
type Host struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
}

// CaptureHost collects facts about this machine and build. An unknown fact is "unknown", never empty.
func CaptureHost() Host {
	return Host{
		Kernel: kernelRelease(),
		CPU:    cpuModel(),
		Cores:  runtime.NumCPU(),
		Go:     runtime.Version(),
		Commit: buildinfo.Read().Commit,
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(string(line), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
