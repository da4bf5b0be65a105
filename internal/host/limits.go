package host

import (
	"golang.org/x/sys/unix"
)

// MayLock returns how many bytes this process may pin, and whether it may pin without limit. The kernel counts the memory of AF_XDP
// sockets unless the process has CAP_IPC_LOCK.
func MayLock() (free bool, limit uint64) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 has two halves of 32 bits
	if unix.Capget(&header, &data[0]) == nil {
		free = data[unix.CAP_IPC_LOCK/32].Effective&(1<<(unix.CAP_IPC_LOCK%32)) != 0
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil {
		return true, 0 // unknown: the kernel decides when memory is pinned
	}
	return free, r.Cur
}

// FitsMemory reports whether this machine has n bytes of memory. If it does not, an allocation would end the process.
func FitsMemory(n int) bool {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return true
	}
	return uint64(n) <= (info.Totalram+info.Totalswap)*uint64(info.Unit)
}

// Processors returns the numbers of the processors that this process may run on, ascending.
func Processors() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	numbers := make([]int, 0, set.Count())
	for n := 0; len(numbers) < set.Count(); n++ {
		if set.IsSet(n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
