package netlabtest

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are system calls that sandboxes refuse, and their errors.
var refusedCalls = map[string]uint32{"bpf": unix.SYS_BPF, "timerfd": unix.SYS_TIMERFD_CREATE, "memfd": unix.SYS_MEMFD_CREATE, "setaffinity": unix.SYS_SCHED_SETAFFINITY}

var refusedFamilies = map[string]uint32{"xdp": unix.AF_XDP, "netlink": unix.AF_NETLINK, "unix": unix.AF_UNIX, "packet": unix.AF_PACKET, "inet": unix.AF_INET, "inet6": unix.AF_INET6}

var refusedWith = map[string]unix.Errno{"EAFNOSUPPORT": unix.EAFNOSUPPORT, "EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS, "EACCES": unix.EACCES}

// Confine restricts this process permanently, as a sandbox does. The word "xdp=EPERM" refuses sockets of AF_XDP with this error;
// likewise netlink, unix, packet, inet and inet6. The word "bpf=ENOSYS" refuses a system call; likewise timerfd, memfd and
// setaffinity. The words noproc and nosys hide file systems. nolock removes locked memory, nobody removes all rights.
func Confine(words []string) error {
	var filter []unix.SockFilter
	add := func(code uint16, k uint32, no uint8) {
		filter = append(filter, unix.SockFilter{Code: code, Jf: no, K: k})
	}
	const load, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const number, firstArgument = 0, 16 // offsets in struct seccomp_data
	var errs []error
	nobody := false
	for _, word := range words {
		what, with, _ := strings.Cut(word, "=")
		code, known := refusedWith[with]
		if !known {
			code = unix.EPROTONOSUPPORT
		}
		refuse := unix.SECCOMP_RET_ERRNO | uint32(code)
		switch {
		case what == "nobody":
			nobody = true
		case what == "nolock":
			errs = append(errs, dropLocking())
		case what == "noproc", what == "nosys":
			errs = append(errs, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/"+strings.TrimPrefix(what, "no"), "tmpfs", 0, ""))
		case refusedFamilies[what] != 0:
			add(load, number, 0)
			add(equal, unix.SYS_SOCKET, 3)
			add(load, firstArgument, 0)
			add(equal, refusedFamilies[what], 1)
			add(end, refuse, 0)
		case refusedCalls[what] != 0:
			add(load, number, 0)
			add(equal, refusedCalls[what], 1)
			add(end, refuse, 0)
		default:
			errs = append(errs, fmt.Errorf("restrict this process: %q is no restriction: the comment of Confine lists them", word))
		}
	}
	if nobody { // this also removes capabilities
		errs = append(errs, syscall.Setgroups(nil), syscall.Setresgid(65534, 65534, 65534), syscall.Setresuid(65534, 65534, 65534))
	}
	if len(filter) > 0 {
		add(end, unix.SECCOMP_RET_ALLOW, 0)
		errs = append(errs, filterCalls(filter))
	}
	return errors.Join(errs...)
}

// filterCalls makes the kernel refuse system calls of all threads.
func filterCalls(filter []unix.SockFilter) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	at := reflect.ValueOf(program).Pointer() // on the heap, where objects do not move
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, at)
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// dropLocking limits locked memory to 64 KiB. The calling thread loses CAP_IPC_LOCK.
func dropLocking() error {
	limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := errors.Join(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit), unix.Capget(&header, &data[0])); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	data[0].Permitted &^= 1 << unix.CAP_IPC_LOCK
	runtime.LockOSThread() // permanently, because capabilities belong to the thread
	return unix.Capset(&header, &data[0])
}
