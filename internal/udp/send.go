package udp

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Sender gathers datagrams and sends them with one system call.
type Sender struct {
	msgs       []mmsghdr
	pieces     []unix.Iovec
	nm, np     int
	ect4, ect6 []byte    // control messages that set ect0
	direct     [2][]byte // control messages that name the interface, without and with ect0; see From
}

// maxSends is how often a datagram is sent that meets errors about others: all that came before fail one send, and more may come
// meanwhile.
const maxSends = 4

// ect0 is the codepoint that says that routers may mark the datagram (RFC 3168 §5).
const ect0 = 2

// NewSender makes a sender for so many datagrams of so many pieces each.
func NewSender(datagrams, pieces int) *Sender {
	mark := binary.NativeEndian.AppendUint32(nil, ect0)
	return &Sender{
		msgs: make([]mmsghdr, datagrams), pieces: make([]unix.Iovec, datagrams*pieces),
		ect4: controlOf(unix.SOL_IP, unix.IP_TOS, mark), ect6: controlOf(unix.SOL_IPV6, unix.IPV6_TCLASS, mark),
	}
}

// From makes datagrams to addresses that are Direct come from a local address, and leave by the interface with an index.
func (s *Sender) From(local netip.Addr, index int) {
	local = local.Unmap()
	out := binary.NativeEndian.AppendUint32(nil, uint32(index))
	if local.Is4() { // struct in_pktinfo
		out = append(append(out, local.AsSlice()...), 0, 0, 0, 0)
		s.direct[0] = controlOf(unix.SOL_IP, unix.IP_PKTINFO, out)
		s.direct[1] = slices.Concat(s.direct[0], s.ect4)
		return
	}
	s.direct[0] = controlOf(unix.SOL_IPV6, unix.IPV6_PKTINFO, append(local.AsSlice(), out...)) // struct in6_pktinfo
	s.direct[1] = slices.Concat(s.direct[0], s.ect6)
}

// Begin starts a datagram, which routers may mark or not. to must not change before Send.
func (s *Sender) Begin(to *Addr, markable bool) {
	h := &s.msgs[s.nm].hdr
	h.Name, h.Namelen = nameOf(&to.raw), to.n
	h.Control = nil
	h.SetControllen(0)
	var control []byte
	switch {
	case to.direct && markable:
		control = s.direct[1]
	case to.direct:
		control = s.direct[0]
	case markable && to.raw.Family == unix.AF_INET6:
		control = s.ect6
	case markable:
		control = s.ect4
	}
	if control != nil {
		h.Control = &control[0]
		h.SetControllen(len(control))
	}
	h.Iov = &s.pieces[s.np]
	h.SetIovlen(0)
	s.nm++
}

// Add appends a piece, which is not empty, to the datagram that was begun last.
func (s *Sender) Add(b []byte) {
	v := &s.pieces[s.np]
	v.Base = &b[0]
	v.SetLen(len(b))
	s.np++
	h := &s.msgs[s.nm-1].hdr
	h.SetIovlen(int(h.Iovlen) + 1)
}

// Send sends what was gathered, in order, and returns how many datagrams the kernel refused, and how many of them because
// they are longer than the MTU: they are lost. One that it refuses for a reason of its own, too long or without a route, does
// not stop those behind it; a full send buffer does. Where ICMP errors are told, a send may fail for an earlier datagram and is
// repeated.
func (s *Sender) Send(on *Socket) (refused, tooLong int) {
	left := s.msgs[:s.nm]
	s.nm, s.np = 0, 0
	for failed := 0; len(left) > 0; {
		n, errno := sendmmsg(on.fd, left)
		left = left[n:]
		if n > 0 {
			failed = 0
		}
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
			return refused + len(left), tooLong
		default:
			if failed++; on.watcher != nil && failed < maxSends {
				continue
			}
			failed = 0
			if errno == unix.EMSGSIZE {
				tooLong++
			}
			refused++
			left = left[1:]
		}
	}
	return refused, tooLong
}
