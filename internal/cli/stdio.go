package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// null is the device number of /dev/null.
var null = unix.Mkdev(1, 3)

// Closed says that a standard file was closed when the process began. The Go runtime opens /dev/null to read and write in its place. A
// shell's redirection opens it for one of both.
func Closed(f *os.File) bool {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return true
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && stat.Rdev == null && flags&unix.O_ACCMODE == unix.O_RDWR
}
