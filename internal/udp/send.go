package udp

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Sender collects datagrams and sends them with one system call. It joins datagrams that allow it to GSO batches (UDP_SEGMENT): the
// kernel processes a batch as one packet, and splits it as late as possible.
type Sender struct {
	datagrams  []datagram
	pieces     []unix.Iovec
	stretches  []unix.Iovec // the same memory with adjacent fragments of a batch joined, which the kernel copies faster
	last       []byte       // newest fragment
	runs       []run
	msgs       []mmsghdr // one for each batch
	single     []mmsghdr // one for each datagram of a refused batch
	control    []byte    // control messages of each batch
	nd, np, nr int
	ns         int       // number of stretches
	ect4, ect6 []byte    // control messages that set ect0
	direct     [2][]byte // control messages that select the interface, without and with ect0; see From

	size []byte // control message with the segment size

	inRuns uint64 // datagrams sent in batches
}

// datagram is a range of fragments.
type datagram struct{ piece, pieces int }

// run is a GSO batch: datagrams to one destination that leave as one message. All have the same length, except the last, which may
// be shorter.
type run struct {
	to       *Addr
	markable bool
	open     bool // further datagrams may join
	first, n int
	stretch  int // index of its first stretch
	segment  int // length of each datagram except the last
	bytes    int
}

const (
	// maxSegments is the kernel's UDP_MAX_SEGMENTS before Linux 6.9, which doubled it.
	maxSegments = 64
	// maxRun is the longest UDP payload over IPv4 in bytes, which is also the kernel's limit for a batch over IPv6.
	maxRun = 65507
	// maxSends is how often a datagram is sent if pending ICMP errors make the send fail. All earlier errors fail one send
	// together, but more may arrive meanwhile.
	maxSends = 4
	// ect0 is the ECN codepoint of a datagram that routers may mark (RFC 3168 §5).
	ect0 = 2
)

// sendControl is room for the control messages: interface, ECN codepoint and segment size.
var sendControl = unix.CmsgSpace(unix.SizeofInet6Pktinfo) + unix.CmsgSpace(4) + unix.CmsgSpace(2)

// NewSender returns a Sender for this many datagrams of this many fragments each.
func NewSender(datagrams, pieces int) *Sender {
	mark := binary.NativeEndian.AppendUint32(nil, ect0)
	return &Sender{
		datagrams: make([]datagram, datagrams), pieces: make([]unix.Iovec, datagrams*pieces), stretches: make([]unix.Iovec, datagrams*pieces), runs: make([]run, datagrams),
		msgs: make([]mmsghdr, datagrams), single: make([]mmsghdr, maxSegments), control: make([]byte, datagrams*sendControl),
		ect4: controlOf(unix.SOL_IP, unix.IP_TOS, mark), ect6: controlOf(unix.SOL_IPV6, unix.IPV6_TCLASS, mark),
		size: controlOf(unix.SOL_UDP, unix.UDP_SEGMENT, make([]byte, 2)),
	}
}

// From sets the source address and the interface for datagrams to addresses that Addr.Direct has marked.
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

// Begin starts a datagram of length bytes. markable means that routers may mark it. joins means that it may join the GSO batch of
// the datagrams before it. to remembers refused batches, and must not change before Send.
func (s *Sender) Begin(to *Addr, markable bool, length int, joins bool) {
	joins = joins && to.alone.over()
	if !joins || s.nr == 0 || !s.runs[s.nr-1].takes(to, markable, length) {
		s.runs[s.nr] = run{to: to, markable: markable, open: joins, first: s.nd, stretch: s.ns, segment: length}
		s.nr++
		s.last = nil
	}
	r := &s.runs[s.nr-1]
	r.open = r.open && length == r.segment
	r.n++
	r.bytes += length
	s.datagrams[s.nd] = datagram{piece: s.np}
	s.nd++
}

// BeginLong starts a message of length bytes that leaves as one GSO batch with segments of segment bytes. The kernel or the device may
// split it there. If the kernel refuses the message, it is lost.
func (s *Sender) BeginLong(to *Addr, markable bool, length, segment int) {
	s.Begin(to, markable, length, false)
	s.runs[s.nr-1].segment = segment
}

// takes reports whether a datagram may join the batch.
func (r *run) takes(to *Addr, markable bool, length int) bool {
	return r.open && r.to == to && r.markable == markable && length <= r.segment && r.n < maxSegments && r.bytes+length <= maxRun
}

// Add appends a non-empty fragment to the newest datagram.
func (s *Sender) Add(b []byte) {
	v := &s.pieces[s.np]
	v.Base = &b[0]
	v.SetLen(len(b))
	s.np++
	s.datagrams[s.nd-1].pieces++
	if n := len(s.last); n > 0 && cap(s.last) > n && &s.last[:n+1][n] == &b[0] {
		v = &s.stretches[s.ns-1]
		v.SetLen(int(v.Len) + len(b))
	} else {
		s.stretches[s.ns] = *v
		s.ns++
	}
	s.last = b
}

// gather makes one message of each batch.
func (s *Sender) gather() {
	for i := range s.nr {
		r := &s.runs[i]
		control := s.options(r)
		if r.bytes > r.segment {
			control = append(append(s.control[i*sendControl:][:0:sendControl], control...), s.size...)
			binary.NativeEndian.PutUint16(control[len(control)-len(s.size)+unix.CmsgLen(0):], uint16(r.segment))
		}
		end := s.ns
		if i+1 < s.nr {
			end = s.runs[i+1].stretch
		}
		message(&s.msgs[i], r.to, s.stretches[r.stretch:end], control)
	}
}

// options returns the control messages of each datagram of a batch.
func (s *Sender) options(r *run) []byte {
	switch {
	case r.to.direct && r.markable:
		return s.direct[1]
	case r.to.direct:
		return s.direct[0]
	case r.markable && r.to.raw.Family == unix.AF_INET6:
		return s.ect6
	case r.markable:
		return s.ect4
	}
	return nil
}

// message fills m with a destination, fragments and control messages.
func message(m *mmsghdr, to *Addr, pieces []unix.Iovec, control []byte) {
	h := &m.hdr
	h.Name, h.Namelen = nameOf(&to.raw), uint32(to.n)
	h.Control, h.Iov = nil, nil
	if len(control) > 0 {
		h.Control = &control[0]
	}
	h.SetControllen(len(control))
	if len(pieces) > 0 {
		h.Iov = &pieces[0]
	}
	h.SetIovlen(len(pieces))
}

// Send sends the collected datagrams in order. It returns how many the kernel refused, and how many of these exceed the MTU; all of
// them are lost. A datagram that is too long or has no route does not stop the next datagrams, but a full send buffer does. If ICMP
// errors are reported, a send may fail because of an earlier datagram, and is repeated. A refused batch is sent again as single
// datagrams. If these are accepted, and the error means that the kernel or device cannot send batches, batches to the destination
// are suspended.
func (s *Sender) Send(on *Socket) (refused, tooLong int) {
	s.gather()
	for at := 0; at < s.nr; at++ {
		n, errno := push(on, s.msgs[at:s.nr])
		for i := range s.runs[at : at+n] {
			if r := &s.runs[at+i]; r.bytes > r.segment {
				s.inRuns += uint64(r.n)
				r.to.alone.newest = 0
			}
		}
		if at += n; at == s.nr {
			break
		}
		r := &s.runs[at]
		switch {
		case full(errno):
			refused += s.nd - r.first
			at = s.nr
		case r.n > 1:
			lost, long := s.apart(on, r)
			if lost == 0 && neverInRuns(errno) {
				r.to.alone.begin()
			}
			refused, tooLong = refused+lost, tooLong+long
		default:
			refused, tooLong = refused+1, tooLong+tooLongFor(errno)
		}
	}
	clear(s.pieces[:s.np]) // the fragments may be memory of other owners
	clear(s.stretches[:s.ns])
	s.nd, s.np, s.nr, s.ns, s.last = 0, 0, 0, 0, nil
	return refused, tooLong
}

// apart sends the datagrams of a batch one by one.
func (s *Sender) apart(on *Socket, r *run) (refused, tooLong int) {
	for i := range r.n {
		d := &s.datagrams[r.first+i]
		message(&s.single[i], r.to, s.pieces[d.piece:][:d.pieces], s.options(r))
	}
	for left := s.single[:r.n]; len(left) > 0; left = left[1:] {
		n, errno := push(on, left)
		if left = left[n:]; len(left) == 0 {
			break
		}
		if full(errno) {
			return refused + len(left), tooLong
		}
		refused, tooLong = refused+1, tooLong+tooLongFor(errno)
	}
	return refused, tooLong
}

// push sends messages until the kernel refuses one. It returns how many were sent, and the reason of the refusal.
func push(on *Socket, msgs []mmsghdr) (taken int, errno unix.Errno) {
	for failed := 0; taken < len(msgs); {
		n, errno := sendmmsg(on.fd, msgs[taken:])
		taken += n
		if n > 0 {
			failed = 0
		}
		if errno == 0 || errno == unix.EINTR {
			continue
		}
		if failed++; full(errno) || on.watcher == nil || failed == maxSends {
			return taken, errno
		}
	}
	return taken, 0
}

// full reports whether an error is about the send buffer rather than about a datagram.
func full(errno unix.Errno) bool {
	return errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.ENOMEM
}

// neverInRuns reports whether an error means that batches are not supported: EINVAL if the socket has no checksums; EIO behind
// IPsec, and before Linux 6.11 if the device has no checksums (udp_send_skb); EOPNOTSUPP. Other errors are temporary: a firewall, a
// missing route, an interface that is down, or a changed path.
func neverInRuns(errno unix.Errno) bool {
	return errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP
}

func tooLongFor(errno unix.Errno) int {
	if errno == unix.EMSGSIZE {
		return 1
	}
	return 0
}

// InRuns returns the number of datagrams sent in batches after the previous call.
func (s *Sender) InRuns() uint64 {
	n := s.inRuns
	s.inRuns = 0
	return n
}
