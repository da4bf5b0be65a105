package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
)

// Capability numbers of linux/capability.h.
const (
	capNetAdmin = 12
	capSysAdmin = 21
	capBPF      = 39
)

// minKernel is the first kernel with everything the program needs; the newest part is XDP with fragments.
const (
	minKernelMajor = 5
	minKernelMinor = 18
)

// ErrUnsupported is matched by the error of Supported.
var ErrUnsupported = errors.New("XDP steering is not available")

// ErrForbidden is matched, too, when the kernel has what it takes and this process has the capabilities, but may not load programs.
var ErrForbidden = errors.New("the kernel does not let this process load XDP programs although it has CAP_BPF")

// Supported returns nil when this process can attach the program, or else everything that is in the way, one sentence
// each.
func Supported() error {
	problems := kernelProblems()
	if len(problems) == 0 {
		// Probing creates programs and maps, so without the rights its answers mean nothing.
		if problems = rightProblems(); len(problems) == 0 {
			var forbidden bool
			if problems, forbidden = featureProblems(); forbidden {
				return fmt.Errorf("bpf: %w: %w: %s", ErrUnsupported, ErrForbidden, whyForbidden())
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("bpf: %w: %s", ErrUnsupported, strings.Join(problems, " "))
}

func kernelProblems() []string {
	code, err := features.LinuxVersionCode()
	if err != nil {
		return []string{fmt.Sprintf("The kernel's version is unknown (is /proc mounted?): %v.", err)}
	}
	major, minor := code>>16, code>>8&0xff
	if major < minKernelMajor || major == minKernelMajor && minor < minKernelMinor {
		return []string{fmt.Sprintf("The kernel is %d.%d; XDP with fragments needs %d.%d.", major, minor,
			minKernelMajor, minKernelMinor)}
	}
	return nil
}

func rightProblems() []string {
	effective, err := effectiveCapabilities("/proc/self/status")
	if err != nil {
		return []string{fmt.Sprintf("The capabilities of this process are unknown: %v.", err)}
	}
	has := func(capability int) bool { return effective>>capability&1 == 1 }
	var problems []string
	if !has(capBPF) && !has(capSysAdmin) {
		problems = append(problems, "The process has no CAP_BPF.")
	}
	if !has(capNetAdmin) {
		problems = append(problems, "The process has no CAP_NET_ADMIN.")
	}
	if len(problems) > 0 {
		problems = append(problems, "Run as root or use setcap cap_bpf,cap_net_admin,cap_net_raw+ep.")
	}
	return problems
}

// featureProblems asks the kernel. forbidden says that it answers this process nothing.
func featureProblems() (problems []string, forbidden bool) {
	probes := []struct {
		what string
		err  error
	}{
		{"XDP programs (4.8, CONFIG_BPF_SYSCALL)", features.HaveProgramType(ebpf.XDP)},
		{"AF_XDP socket maps (4.18, CONFIG_XDP_SOCKETS)", features.HaveMapType(ebpf.XSKMap)},
		{"hash maps (3.19)", features.HaveMapType(ebpf.Hash)},
		{"per-CPU arrays (4.6)", features.HaveMapType(ebpf.PerCPUArray)},
	}
	for _, p := range probes {
		switch {
		case errors.Is(p.err, fs.ErrPermission), errors.Is(p.err, syscall.ENOSYS):
			forbidden = true
		case errors.Is(p.err, ebpf.ErrNotSupported):
			problems = append(problems, "The kernel has no "+p.what+".")
		case p.err != nil:
			problems = append(problems, fmt.Sprintf("The kernel's answer about %s was: %v.", p.what, p.err))
		}
	}
	return problems, forbidden
}

// firstUserNamespace is the link of the user namespace that a machine starts with (PROC_USER_INIT_INO of linux/proc_ns.h).
const firstUserNamespace = "user:[4026531837]"

// InUserNamespace says that this process is in a user namespace other than the machine's first one, whose capabilities count for nothing with BPF unless
// a token for BPF says so. It is false where /proc does not tell.
func InUserNamespace() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns != firstUserNamespace
}

// whyForbidden guesses.
func whyForbidden() string {
	if InUserNamespace() {
		return "it is in a user namespace, where that capability counts for nothing outside"
	}
	return "a security policy forbids it (seccomp, as of containers, or an LSM)"
}

func effectiveCapabilities(path string) (uint64, error) {
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, fmt.Errorf("no CapEff line in %s", path)
}
