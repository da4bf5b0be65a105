package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// This file reads and refreshes single entries of the kernel's neighbour table (rtnetlink(7)), in reused buffers. A process refreshes its
// neighbours repeatedly, and the table is shared and may be long.

// Neighbour is the kernel's entry for a neighbour. The zero Neighbour means that there is none.
type Neighbour struct {
	MAC   [6]byte
	Known bool   // packets can be sent to that address
	State uint16 // a set of NUD_ flags
}

// usable are the states in which the kernel itself would send to the address.
const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT | unix.NUD_NOARP

// neighbourTable is the kernel's neighbour table in one network namespace. Its methods may be called from any goroutine.
type neighbourTable struct {
	mu       sync.Mutex // guards all below
	fd       int        // -1 once it is closed
	sequence uint32
	request  []byte
	answer   [512]byte // an entry has at most 150 bytes
}

// openNeighbourTable opens the table of the calling thread's network namespace.
func openNeighbourTable() (*neighbourTable, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for neighbours: %w", err)
	}
	// A connected socket receives messages from the kernel alone.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, errors.Join(fmt.Errorf("connect the netlink socket for neighbours to the kernel: %w", err), unix.Close(fd))
	}
	return &neighbourTable{fd: fd}, nil
}

// namespace is the cookie of the table's network namespace; 0 before Linux 5.14.
func (t *neighbourTable) namespace() uint64 {
	cookie, err := unix.GetsockoptUint64(t.fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}

func (t *neighbourTable) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fd := t.fd
	t.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// look reads the kernel's entry for a neighbour on an interface. It returns none if the interface was removed. Events of the interface
// report the removal. It needs no privileges.
func (t *neighbourTable) look(index int, at netip.Addr) (n Neighbour, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(unix.RTM_GETNEIGH, 0, index, at, 0)
	kind, body, err := t.exchange()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("read the entry of %s in the neighbour table: %w", at, err)
	}
	if _, found, n, ok := ParseNeighbour(body); ok && kind == unix.RTM_NEWNEIGH && found == at.WithZone("") {
		return n, nil
	}
	return n, fmt.Errorf("read the entry of %s in the neighbour table: the kernel answered with another entry (message type %d)", at, kind)
}

// use makes the kernel act as if it had a packet for a neighbour. The kernel resolves an unknown neighbour, and probes a neighbour that
// it has not heard recently. It needs CAP_NET_ADMIN.
func (t *neighbourTable) use(index int, at netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(unix.RTM_NEWNEIGH, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, index, at, unix.NTF_USE)
	_, _, err := t.exchange()
	return err
}

// write builds the request: header, struct ndmsg, and the address as the only attribute.
func (t *neighbourTable) write(kind, flags uint16, index int, at netip.Addr, use uint8) {
	t.sequence++
	native := binary.NativeEndian
	b := native.AppendUint32(t.request[:0], 0) // the length, which is set below
	b = native.AppendUint16(b, kind)
	b = native.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = native.AppendUint32(b, t.sequence)
	b = native.AppendUint32(b, 0) // port number 0: the kernel's choice
	family := byte(unix.AF_INET6)
	if at.Is4() {
		family = unix.AF_INET
	}
	b = append(b, family, 0, 0, 0)
	b = native.AppendUint32(b, uint32(index))
	b = native.AppendUint16(b, unix.NUD_NONE)
	b = append(b, use, 0)
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+at.BitLen()/8))
	b = native.AppendUint16(b, unix.NDA_DST)
	if at.Is4() {
		ip := at.As4()
		b = append(b, ip[:]...)
	} else {
		ip := at.As16()
		b = append(b, ip[:]...)
	}
	native.PutUint32(b, uint32(len(b)))
	t.request = b
}

// exchange sends the request and returns the answer, which is valid until the next call. The kernel answers before write returns, so read
// does not block.
func (t *neighbourTable) exchange() (kind uint16, body []byte, err error) {
	if _, err := unix.Write(t.fd, t.request); err != nil {
		return 0, nil, os.NewSyscallError("write", err)
	}
	for {
		n, err := unix.Read(t.fd, t.answer[:])
		if err != nil {
			return 0, nil, os.NewSyscallError("read", err)
		}
		b := t.answer[:n]
		if n < unix.SizeofNlMsghdr {
			return 0, nil, fmt.Errorf("the kernel's answer has only %d bytes", n)
		}
		length := int(binary.NativeEndian.Uint32(b))
		if binary.NativeEndian.Uint32(b[8:]) != t.sequence {
			continue // this answers an earlier request, whose answer could not be read then
		}
		if length < unix.SizeofNlMsghdr || length > n {
			return 0, nil, fmt.Errorf("the kernel's answer has %d bytes, but states a length of %d", n, length)
		}
		kind, body = binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:length]
		if kind == unix.NLMSG_ERROR && len(body) >= 4 { // code 0 means success
			if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
				return kind, nil, unix.Errno(-code)
			}
		}
		return kind, body, nil
	}
}

// ParseNeighbour parses a message about a neighbour without its netlink header.
func ParseNeighbour(b []byte) (index int, at netip.Addr, n Neighbour, ok bool) {
	if len(b) < unix.SizeofNdMsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return 0, at, n, false // of a bridge
	}
	index, n.State = int(binary.NativeEndian.Uint32(b[4:])), binary.NativeEndian.Uint16(b[8:])
	for kind, value, rest, more := attribute(b[unix.SizeofNdMsg:]); more; kind, value, rest, more = attribute(rest) {
		switch kind {
		case unix.NDA_DST:
			at, ok = netip.AddrFromSlice(value)
		case unix.NDA_LLADDR:
			if len(value) == len(n.MAC) && n.State&usable != 0 {
				n.MAC, n.Known = [6]byte(value), true
			}
		}
	}
	return index, at.Unmap(), n, ok
}

// attribute removes the first attribute from a list. ok is false if no complete attribute is left.
func attribute(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < unix.SizeofRtAttr {
		return 0, nil, nil, false
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < unix.SizeofRtAttr || length > len(b) {
		return 0, nil, nil, false
	}
	next := min((length+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(b))
	return binary.NativeEndian.Uint16(b[2:]), b[unix.SizeofRtAttr:length], b[next:], true
}
