package xdp

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kickTx is sendto(fd, MSG_DONTWAIT) without notifying Go's scheduler. The call lasts at most some tens of microseconds (32
// descriptors unless Config.TxBudget is larger). Notifying the scheduler would cost a tenth of it.
func kickTx(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// xskOption is the set of kernel structs for the option calls below. None of them holds a pointer.
type xskOption interface {
	uint32 | unix.XDPUmemReg | unix.XDPMmapOffsets | unix.XDPStatistics
}

func setOption[T xskOption](fd, option int, value *T) error {
	// unsafe: in bounds because the length passed is that of *value; alive because value is referenced across the call;
	// the kernel reads it during the call only.
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(unsafe.Pointer(value)), unsafe.Sizeof(*value), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getOption fills *value. An older kernel may fill only the beginning; the rest stays zero.
func getOption[T xskOption](fd, option int, value *T) (length int, err error) {
	size := uint32(unsafe.Sizeof(*value))
	// unsafe: in bounds because size says how long *value is and the kernel writes no more; both live across the call;
	// the kernel writes them during the call only.
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(unsafe.Pointer(value)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(size), nil
}

// umemRegistration describes mem to the kernel. The kernel pins the pages and uses the address only during XDP_UMEM_REG. mem comes
// from mmap, so the garbage collector never moves or frees it.
func umemRegistration(mem []byte) unix.XDPUmemReg {
	return unix.XDPUmemReg{
		// unsafe: only the number is taken, nothing is read through it here.
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		Len:  uint64(len(mem)),
		Size: FrameSize,
	}
}

// mapRing maps one ring of the socket. The mapping is shared with the kernel until Close unmaps it. The ring must not be accessed
// afterwards, so Close replaces the socket's rings.
func mapRing[T Slot](fd int, pageOffset int64, slots uint32, off *unix.XDPRingOffset) ([]byte, RingMemory[T], error) {
	var ring RingMemory[T]
	var slot T
	size := off.Desc + uint64(slots)*uint64(unsafe.Sizeof(slot))
	mem, err := unix.Mmap(fd, pageOffset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, ring, err
	}
	words := [2]*atomic.Uint32{}
	for i, offset := range [2]uint64{off.Producer, off.Consumer} {
		if offset%4 != 0 || offset+4 > off.Desc {
			_ = unix.Munmap(mem) // the error below matters more
			return nil, ring, fmt.Errorf("%w: kernel reported ring word at offset %d of %d", ErrNotSupported, offset, off.Desc)
		}
		// unsafe: in bounds and aligned by the check above (mmap is page aligned). Shared with the kernel, which uses the
		// same 32-bit atomic accesses; lives as long as mem.
		words[i] = (*atomic.Uint32)(unsafe.Pointer(&mem[offset]))
	}
	if off.Desc%8 != 0 {
		_ = unix.Munmap(mem) // as above
		return nil, ring, fmt.Errorf("%w: kernel reported ring slots at offset %d", ErrNotSupported, off.Desc)
	}
	ring.Producer, ring.Consumer = words[0], words[1]
	// unsafe: in bounds because mem was mapped with room for exactly these slots after off.Desc, aligned by the check
	// above. Which side may touch a slot is settled by the two index words; lives as long as mem.
	ring.Slots = unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), int(slots))
	return mem, ring, nil
}

// OffsetIn returns the offset of sub in area. ok is true only if all of sub lies inside. An empty sub must lie within [0,
// len(area)].
func OffsetIn(area, sub []byte) (offset int, ok bool) {
	// unsafe: the pointers are compared as numbers and never followed. Neither slice can move while it is an argument:
	// memory from mmap never does, and the garbage collector does not move heap objects either.
	base := uintptr(unsafe.Pointer(unsafe.SliceData(area)))
	start := uintptr(unsafe.Pointer(unsafe.SliceData(sub)))
	if start < base || start-base > uintptr(len(area)) {
		return 0, false
	}
	offset = int(start - base)
	if len(sub) > len(area)-offset {
		return 0, false
	}
	return offset, true
}

// sizeofMmapOffsets is the length of XDP_MMAP_OFFSETS on Linux 5.4 and later. Older kernels omit the flags words.
const sizeofMmapOffsets = int(unsafe.Sizeof(unix.XDPMmapOffsets{}))

// ethtoolChannels is the kernel's struct ethtool_channels.
type ethtoolChannels struct {
	cmd                                uint32
	_                                  [4]uint32 // maximum of each
	rxCount, txCount, _, combinedCount uint32
}

// ifreqData is the kernel's struct ifreq with a pointer in its union.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// ethtoolRings is the kernel's struct ethtool_ringparam.
type ethtoolRings struct {
	cmd     uint32
	_       [4]uint32 // maximum of each
	rxCount uint32
	_       [3]uint32
}

// ethtoolStruct is the set of kernel structs that SIOCETHTOOL fills. None of them holds a pointer.
type ethtoolStruct interface{ ethtoolChannels | ethtoolRings }

// askEthtool makes an interface's driver fill *value. The first word of *value is the command.
func askEthtool[T ethtoolStruct](fd int, name string, value *T) error {
	var req ifreqData
	if len(name) >= len(req.name) {
		return unix.ENODEV
	}
	copy(req.name[:], name)
	req.data = unsafe.Pointer(value)
	// unsafe: req is a whole struct ifreq and req.data a whole struct, as the command in it demands. Both are alive across the
	// call (req.data keeps value alive). The kernel reads and writes them only during the call.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}

// ifreqHardware is struct ifreq as filled by SIOCGIFHWADDR.
type ifreqHardware struct {
	name    [unix.IFNAMSIZ]byte
	family  uint16
	address [14]byte
	_       [8]byte
}

// hardwareAddress returns the Ethernet address of an interface, or nil if it has none.
func hardwareAddress(fd int, name string) []byte {
	var req ifreqHardware
	if len(name) >= len(req.name) {
		return nil
	}
	copy(req.name[:], name)
	// unsafe: req is a whole struct ifreq, alive across the call; the kernel reads and writes it during the call only.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFHWADDR, uintptr(unsafe.Pointer(&req)))
	if errno != 0 || req.family != unix.ARPHRD_ETHER {
		return nil
	}
	return req.address[:6]
}
