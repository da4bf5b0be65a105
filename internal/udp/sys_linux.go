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
	n   uint32 // bytes received or sent, by the kernel
}

// sendmmsg sends until one message fails and returns how many were sent; an error only when that is the first. It does not
// tell the scheduler: the call takes about a microsecond for a packet and never waits.
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

// recvmmsg returns the counterpart for receiving, with flags in addition to MSG_DONTWAIT. It returns the number of messages. It also returns
// none if the socket had an error to report; the next call then continues behind it. A message longer than its pieces has MSG_TRUNC in its
// flags.
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

// nameOf points a message at an address.
func nameOf(raw *unix.RawSockaddrInet6) *byte {
	// unsafe: a pointer to the start of *raw, of the same lifetime; the kernel is told raw's length, or less.
	return (*byte)(unsafe.Pointer(raw))
}

// controlOf is a control message that sets an option for one datagram.
func controlOf(level, kind int32, value []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(value)))
	// unsafe: in bounds because CmsgSpace has room for the header in front of the value; b is ours until this returns.
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(value)))
	copy(b[unix.CmsgLen(0):], value)
	return b
}

// cmsgOf reads the header of the first control message in b, which is longer than a header: the length with it, the level and the type.
func cmsgOf(b []byte) (n int, level, kind int32) {
	_ = b[unix.SizeofCmsghdr-1]
	// unsafe: in bounds by the line above; b is a multiple of a header's alignment into memory of the Go heap, which is aligned to 8 bytes.
	h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	return int(h.Len), h.Level, h.Type
}

// memInfo is what SO_MEMINFO gives, a word for each: SK_MEMINFO_RMEM_ALLOC to SK_MEMINFO_DROPS, the last.
type memInfo [9]uint32

const (
	memInfoUsed  = 0 // of the receive buffer, as the kernel accounts it
	memInfoLimit = 1
	memInfoDrops = 8
)

// readMemInfo asks for the socket's accounting.
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

// mostAddresses bounds what is asked of an interface configuration.
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
		name, _, _ := strings.Cut(unix.ByteSliceToString(list[i].name[:]), ":") // of a label
		all = append(all, Assigned{Interface: name, Address: netip.AddrFrom4(list[i].address)})
	}
	return all, nil
}
