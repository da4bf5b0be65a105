package udp

import (
	"net/netip"
	"strings"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	_   structs.HostLayout
	hdr unix.Msghdr
	n   uint32 // bytes received or sent, written by the kernel
}

// sendmmsg sends messages until one fails, and returns the number sent. It returns an error only if the first message fails. It
// does not notify Go's scheduler, because the call never waits and takes about a microsecond for a packet.
func sendmmsg(fd int, msgs []mmsghdr) (int, unix.Errno) {
	// unsafe: in bounds, because the length passed is that of msgs. msgs is referenced across the call, as is everything that its typed
	// pointers point to. The kernel reads it, and writes the n fields, only during the call.
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(msgs))),
		uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// recvmmsg receives messages, with flags in addition to MSG_DONTWAIT, and returns their number. If the socket has an error to
// report, it returns 0, and the next call continues. A message longer than its buffers has MSG_TRUNC in its flags.
func recvmmsg(fd int, msgs []mmsghdr, flags int) int {
	// unsafe: as in sendmmsg; here the kernel writes into the pieces, names and control buffers, whose lengths stand beside
	// their pointers in msgs.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(msgs))),
		uintptr(len(msgs)), uintptr(unix.MSG_DONTWAIT|flags), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// ppoll returns at once whether a descriptor has events. It does not notify Go's scheduler: the scheduler's monitor, once notified, takes ten
// times as long as the call.
func ppoll(p *unix.PollFd) (int, unix.Errno) {
	var atOnce unix.Timespec
	// unsafe: p and atOnce are referenced across the call. The kernel reads and writes them only during the call.
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(p)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return int(n), errno
}

// nameOf returns a pointer to an address for a message.
func nameOf(raw *unix.RawSockaddrInet6) *byte {
	// unsafe: a pointer to the start of *raw, of the same lifetime; the kernel is told raw's length, or less.
	return (*byte)(unsafe.Pointer(raw))
}

// controlOf returns a control message that sets an option for one datagram.
func controlOf(level, kind int32, value []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(value)))
	// unsafe: in bounds because CmsgSpace has room for the header in front of the value; b is ours until this returns.
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(value)))
	copy(b[unix.CmsgLen(0):], value)
	return b
}

// cmsgOf returns length, level and type of the first control message in b, which must be longer than a header.
func cmsgOf(b []byte) (n int, level, kind int32) {
	_ = b[unix.SizeofCmsghdr-1]
	// unsafe: in bounds by the line above; b is a multiple of a header's alignment into memory of the Go heap, which is aligned to 8 bytes.
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	return int(h.Len), h.Level, h.Type
}

// memInfo is the result of SO_MEMINFO, a word for each of SK_MEMINFO_RMEM_ALLOC to SK_MEMINFO_DROPS.
type memInfo [9]uint32

const (
	memInfoUsed  = 0 // receive buffer in use, as the kernel accounts it
	memInfoLimit = 1
	memInfoDrops = 8
)

// readMemInfo reads the socket's accounting.
func readMemInfo(fd int) (memInfo, error) {
	var m memInfo
	size := uint32(unsafe.Sizeof(m))
	// unsafe: in bounds because size says how long m is and the kernel writes no more; both live across the call.
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return m, errno
	}
	return m, nil
}

// mostAddresses bounds the number of addresses read from an interface configuration.
const mostAddresses = 4096

// ifreqAddress is struct ifreq as SIOCGIFCONF fills it for IPv4.
type ifreqAddress struct {
	_       structs.HostLayout
	name    [unix.IFNAMSIZ]byte
	family  uint16
	_       uint16
	address [4]byte
	_       [16]byte
}

// ifconf is struct ifconf.
type ifconf struct {
	_      structs.HostLayout
	length int32
	list   *ifreqAddress
}

// interfaceConfiguration lists the IPv4 addresses of the socket's network namespace.
func interfaceConfiguration(fd int) (all []Assigned, err error) {
	list := make([]ifreqAddress, mostAddresses)
	conf := ifconf{length: int32(uintptr(len(list)) * unsafe.Sizeof(list[0])), list: unsafe.SliceData(list)}
	// unsafe: conf says how long list is, and the kernel writes no more; both live across the call, list by the typed pointer in conf.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFCONF, uintptr(unsafe.Pointer(&conf)))
	if errno != 0 {
		return nil, errno
	}
	for i := range list[:uintptr(conf.length)/unsafe.Sizeof(list[0])] {
		name, _, _ := strings.Cut(unix.ByteSliceToString(list[i].name[:]), ":") // removes the label
		all = append(all, Assigned{Interface: name, Address: netip.AddrFrom4(list[i].address)})
	}
	return all, nil
}
