package xdp

import (
	"encoding/binary"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// InterfaceNamed looks up an interface of the calling thread's network namespace by its name or by an alternative name (ip link
// property add dev NAME altname OTHER). Package net does not support alternative names.
func InterfaceNamed(name string) (*net.Interface, error) {
	i, err := net.InterfaceByName(name)
	if err == nil {
		return i, nil
	}
	list, failed := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if failed != nil {
		return nil, err
	}
	messages, failed := syscall.ParseNetlinkMessage(list)
	if failed != nil {
		return nil, err
	}
	for m := range messages {
		if index, ok := calledSo(&messages[m], name); ok {
			return net.InterfaceByIndex(index)
		}
	}
	return nil, err
}

// calledSo returns the interface index in a message of route netlink if the interface has this alternative name.
func calledSo(m *syscall.NetlinkMessage, name string) (index int, ok bool) {
	if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return 0, false
	}
	for kind, value := range attributes(m.Data[unix.SizeofIfInfomsg:]) {
		if kind != unix.IFLA_PROP_LIST {
			continue
		}
		for kind, value := range attributes(value) {
			if kind == unix.IFLA_ALT_IFNAME && strings.TrimSuffix(string(value), "\x00") == name {
				return int(binary.NativeEndian.Uint32(m.Data[4:])), true
			}
		}
	}
	return 0, false
}

// attributes iterates over netlink attributes, up to the first that is truncated.
func attributes(b []byte) func(yield func(kind uint16, value []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED
			if length < unix.SizeofRtAttr || length > len(b) || !yield(kind, b[unix.SizeofRtAttr:length]) {
				return
			}
			b = b[min((length+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(b)):]
		}
	}
}
