package ndhealth

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/internal/datapath/plan"
)

// memoryAvailable returns MemAvailable of /proc/meminfo in bytes, or 0 if unknown.
func memoryAvailable() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, _ := strconv.ParseUint(fields[1], 10, 64) // 0 is unknown
			return kib << 10
		}
	}
	return 0
}

// buffers are the socket buffers that the kernel grants to datapaths, in bytes of payload.
type buffers struct{ send, receive int }

// grantedBuffers requests them on a socket. AF_XDP and UDP sockets have the same limits.
func grantedBuffers() (b buffers) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return b
	}
	defer unix.Close(fd)
	grant := func(force, plain, size int) int {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, size) // the granted size is read next
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, plain)
		if err != nil {
			return 0
		}
		return n / 2 // the kernel doubles it for its overhead
	}
	return buffers{
		send:    grant(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, plan.SocketBuffer),
		receive: grant(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, plan.SocketBuffer),
	}
}

// iommuOf returns the type of the IOMMU group of the device behind an interface: DMA, DMA-FQ, identity, or "" without one.
func iommuOf(name string) string {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "device/iommu_group/type"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
