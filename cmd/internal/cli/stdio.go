package cli

import (
	"os"
	"syscall"
)

// nullDevice is the device number of /dev/null: major 1, minor 3 (Documentation/admin-guide/devices.txt of Linux).
const nullDevice = 1<<8 | 3

// Closed reports whether a standard file was closed when the process started. The Go runtime then opens /dev/null for reading and
// writing, while a shell's redirection opens it for only one of them.
func Closed(f *os.File) bool {
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil {
		return true
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETFL, 0)
	return errno == 0 && stat.Mode&syscall.S_IFMT == syscall.S_IFCHR && stat.Rdev == nullDevice && flags&syscall.O_ACCMODE == syscall.O_RDWR
}
