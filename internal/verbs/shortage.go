package verbs

import (
	"errors"
	"syscall"
)

// NoMemory says that Open failed because the kernel had no memory for it, or none that this process may pin or map.
func NoMemory(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS)
}

// NoDescriptors says that Open failed because the process, or the machine, has no file descriptor left.
func NoDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
