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

// minKernel is the first kernel with all features that the program needs. The newest is XDP with fragments.
var minKernel = version{5, 18}

// ErrUnsupported is wrapped by the error of Supported.
var ErrUnsupported = errors.New("XDP steering is not available")

// ErrForbidden is wrapped too if the kernel has the features and this process has the capabilities, but may not load programs.
var ErrForbidden = errors.New("the kernel does not let this process load XDP programs although it has CAP_BPF")

// Supported returns nil if this process can attach the program. Otherwise it returns all obstacles, one sentence each.
func Supported() error {
	problems := kernelProblems()
	if len(problems) == 0 {
		// The probes create programs and maps, so without privileges their results mean nothing.
		if problems = rightProblems(); len(problems) == 0 {
			var forbidden bool
			if problems, forbidden = featureProblems(); forbidden {
				return forbiddenError{}
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("bpf: %w: %s", ErrUnsupported, strings.Join(problems, " "))
}

func kernelProblems() []string {
	if v, known := kernelVersion(); known && v.before(minKernel) {
		return []string{fmt.Sprintf("The kernel is %s; XDP with fragments needs %s.", v, minKernel)}
	}
	return nil
}

func rightProblems() []string {
	effective, err := effectiveCapabilities("/proc/self/status")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []string{"Loading programs takes /proc, which is not mounted."}
	case err != nil:
		return []string{fmt.Sprintf("The capabilities of the process are unknown: %v.", err)}
	}
	has := func(capability int) bool { return effective>>capability&1 == 1 }
	var lacks []string
	if !has(capBPF) && !has(capSysAdmin) {
		lacks = append(lacks, "CAP_BPF")
	}
	if !has(capNetAdmin) {
		lacks = append(lacks, "CAP_NET_ADMIN")
	}
	if len(lacks) == 0 {
		return nil
	}
	return []string{"The process has no " + strings.Join(lacks, ", ") + ": run it as root or use setcap."}
}

// featureProblems probes the kernel for features. forbidden is true if the kernel refuses all probes of this process.
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

// firstUserNamespace is the link of a machine's initial user namespace (PROC_USER_INIT_INO of linux/proc_ns.h).
const firstUserNamespace = "user:[4026531837]"

// InUserNamespace reports whether this process is in a user namespace other than the initial one. Its capabilities then have no effect on
// BPF without a BPF token. It is false if /proc does not tell.
func InUserNamespace() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns != firstUserNamespace
}

// forbiddenError names what may forbid programs. It wraps ErrUnsupported and ErrForbidden.
type forbiddenError struct{}

// Error implements error.
func (forbiddenError) Error() string {
	if InUserNamespace() {
		return "bpf: " + ErrForbidden.Error() + ": it is in a user namespace, where that capability counts for nothing outside"
	}
	return "bpf: " + ErrForbidden.Error() + ": a security policy forbids it (seccomp, as of containers, or an LSM)"
}

// Unwrap returns both errors for errors.Is.
func (forbiddenError) Unwrap() []error { return []error{ErrUnsupported, ErrForbidden} }

// version is a version of the kernel.
type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(other version) bool {
	return v.major < other.major || v.major == other.major && v.minor < other.minor
}

// kernelVersion calls uname(2), which does not need /proc.
func kernelVersion() (v version, known bool) {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return v, false
	}
	release := make([]byte, 0, len(u.Release))
	for _, c := range u.Release {
		release = append(release, byte(c))
	}
	n, err := fmt.Sscanf(string(release), "%d.%d", &v.major, &v.minor)
	return v, err == nil && n == 2
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
