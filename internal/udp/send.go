package udp

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Sender gathers datagrams and sends them with one system call. Datagrams that may are joined to GSO batches: the kernel takes a batch
// through its network stack in one piece, and splits it as late as it can (UDP_SEGMENT).
type Sender struct {
	datagrams  []datagram
	pieces     []unix.Iovec
	stretches  []unix.Iovec // the same memory, with adjacent pieces of a batch joined to one, which the kernel copies faster
	last       []byte       // the newest piece
	runs       []run
	msgs       []mmsghdr // of runs
	single     []mmsghdr // of the datagrams of one run
	control    []byte    // of each run
	nd, np, nr int
	ns         int       // stretches
	ect4, ect6 []byte    // control messages that set ect0
	direct     [2][]byte // control messages that name the interface, without and with ect0; see From

	size []byte // the control message of the size of segments

	inRuns uint64 // datagrams that left in runs
}

// datagram is where one is among the pieces.
type datagram struct{ piece, pieces int }

// run is datagrams to one destination that leave as one message: all of the same length, but for the last, which may be shorter.
type run struct {
	to       *Addr
	markable bool
	open     bool // a further one may join
	first, n int
	stretch  int // its first
	segment  int // length of each, but for the last
	bytes    int
}

const (
	// maxSegments is the kernel's UDP_MAX_SEGMENTS before Linux 6.9, which doubled it.
	maxSegments = 64
	// maxRun is the longest UDP payload over IPv4, in bytes, and the kernel's bound of a run over both families.
	maxRun = 65507
	// maxSends is how often a datagram is sent that meets errors about others: all that came before fail one send, and more may come
	// meanwhile.
	maxSends = 4
	// ect0 is the codepoint that says that routers may mark the datagram (RFC 3168 §5).
	ect0 = 2
)

// sendControl is room for an interface, a codepoint and the size of the segments.
var sendControl = unix.CmsgSpace(unix.SizeofInet6Pktinfo) + unix.CmsgSpace(4) + unix.CmsgSpace(2)

// NewSender makes a sender for so many datagrams of so many pieces each.
func NewSender(datagrams, pieces int) *Sender {
	mark := binary.NativeEndian.AppendUint32(nil, ect0)
	return &Sender{
		datagrams: make([]datagram, datagrams), pieces: make([]unix.Iovec, datagrams*pieces), stretches: make([]unix.Iovec, datagrams*pieces), runs: make([]run, datagrams),
		msgs: make([]mmsghdr, datagrams), single: make([]mmsghdr, maxSegments), control: make([]byte, datagrams*sendControl),
		ect4: controlOf(unix.SOL_IP, unix.IP_TOS, mark), ect6: controlOf(unix.SOL_IPV6, unix.IPV6_TCLASS, mark),
		size: controlOf(unix.SOL_UDP, unix.UDP_SEGMENT, make([]byte, 2)),
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

// Begin starts a datagram of length bytes. markable says whether routers may mark it, joins whether it may leave in a GSO batch with the
// datagrams before it. to remembers refused batches, and must not change before Send.
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

// takes reports whether a datagram may join the run.
func (r *run) takes(to *Addr, markable bool, length int) bool {
	return r.open && r.to == to && r.markable == markable && length <= r.segment && r.n < maxSegments && r.bytes+length <= maxRun
}

// Add appends a piece, which is not empty, to the datagram that was begun last.
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

// gather makes messages of the runs.
func (s *Sender) gather() {
	for i := range s.nr {
		r := &s.runs[i]
		control := s.options(r)
		if r.n > 1 {
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

// options returns the control messages of each datagram of a run.
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

// message makes m one that consists of pieces, to an address.
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

// Send sends the gathered datagrams in order. It returns how many the kernel refused, and how many of these are longer than the MTU: they
// are lost. A datagram that is too long or has no route does not stop the next ones; a full send buffer does. If ICMP errors are reported,
// a send may fail for an earlier datagram and is repeated. A refused batch is sent again as single datagrams. If all of them are accepted,
// and the error says that the kernel or the device cannot send batches, the destination gets none for a while.
func (s *Sender) Send(on *Socket) (refused, tooLong int) {
	s.gather()
	for at := 0; at < s.nr; at++ {
		n, errno := push(on, s.msgs[at:s.nr])
		for i := range s.runs[at : at+n] {
			if r := &s.runs[at+i]; r.n > 1 {
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
	clear(s.pieces[:s.np]) // they may be memory of others, who forget it
	clear(s.stretches[:s.ns])
	s.nd, s.np, s.nr, s.ns, s.last = 0, 0, 0, 0, nil
	return refused, tooLong
}

// apart sends the datagrams of a run one by one.
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

// push sends messages until the kernel refuses one, and returns how many it took and why not the next one.
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

// full reports whether an error is about the send buffer, and not about a datagram.
func full(errno unix.Errno) bool {
	return errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.ENOMEM
}

// neverInRuns reports whether a run was refused as what cannot be done: EINVAL where the socket has no checksums, EIO behind IPsec, and before Linux 6.11 where
// the device has no checksums (udp_send_skb), and EOPNOTSUPP, which means that. A firewall, a route or an interface that is down refuses for a while, and
// a path may become shorter or longer.
func neverInRuns(errno unix.Errno) bool {
	return errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP
}

func tooLongFor(errno unix.Errno) int {
	if errno == unix.EMSGSIZE {
		return 1
	}
	return 0
}

// InRuns counts the datagrams since the last call that left in runs.
func (s *Sender) InRuns() uint64 {
	n := s.inRuns
	s.inRuns = 0
	return n
}
