package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/nd"
	"github.com/ndxdp/ndxdp/xdp"
)

const (
	// rawHeader is the length of the Ethernet, IPv4 and UDP headers.
	rawHeader = 14 + 20 + 8
	// rawShim is as long as the headers of an ND packet with one small Write (PROTOCOL §3 and §4: 24 + 16 bytes), so that raw and
	// nd send about the same number of bytes. Its first byte is the kind, bytes 8 to 15 are a sequence number.
	rawShim = 24 + 16
	// singleFrameMTU is the largest link MTU whose packets fit into one receive frame, with room for one VLAN tag.
	singleFrameMTU = xdp.RxFrameBytes - 14 - 4
	// rawTxBudget lets one system call send a whole batch if the kernel supports it (6.17). Older kernels send 32 per call.
	rawTxBudget = 1024
)

// Kinds of raw packets.
const (
	rawData   = 1
	rawCredit = 2
	rawEnough = 3 // sent with every credit after the receiver of a stream has finished, because one packet may be lost
	rawEnd    = 4 // stop, and the answer to it
)

// rawLink is one AF_XDP socket with its XDP program, and the headers of its only flow.
type rawLink struct {
	steering *bpf.Steering
	umem     *xdp.UMEM
	sock     *xdp.Socket
	header   [rawHeader]byte
	mtu      int
	datapath string // generic or native, as in a Result

	descs []xdp.Desc // received, not recycled yet
	tx    []xdp.Desc // built, not sent yet
}

// RawSupported returns nil if this process can measure raw AF_XDP, and otherwise the reason.
func RawSupported() error {
	if err := xdp.Supported(); err != nil {
		return err
	}
	return bpf.Supported()
}

// openRaw attaches the program and opens the socket of queue 0.
func openRaw(j Job, mtu int) (*rawLink, error) {
	mode, datapath := bpf.ModeGeneric, nd.DatapathGeneric // the faster mode on veth
	if j.Datapath == nd.DatapathNative.String() {
		mode, datapath = bpf.ModeNative, nd.DatapathNative
	}
	port := j.UDPPort
	if port == 0 {
		port = bpf.DefaultPort
	}
	l := &rawLink{mtu: mtu, datapath: datapath.String(), descs: make([]xdp.Desc, 512), tx: make([]xdp.Desc, 0, 2048)}
	if err := l.setHeader(j, port); err != nil {
		return nil, err
	}
	steering, err := bpf.Attach(bpf.Config{Ifindex: j.Local.Ifindex, Interface: j.Local.Interface, Port: port, Queues: 1, Mode: mode, SingleBuffer: mtu <= singleFrameMTU})
	if err != nil {
		return nil, err
	}
	l.steering = steering
	if l.umem, err = xdp.NewUMEM(xdp.UMEMConfig{RxFrames: 2 * xdp.DefaultRxRing, TxFrames: xdp.DefaultTxRing, ArenaBytes: bwWorkingSet}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.sock, err = xdp.Open(l.umem, xdp.Config{
		Ifindex: j.Local.Ifindex, Mode: xdp.ModeCopy, MultiBuffer: mtu > singleFrameMTU,
		TxBudget: rawTxBudget,
	})
	if err == nil {
		err = errors.Join(steering.SetSocket(0, l.sock.FD()), steering.AddAddress(j.Local.Addr.Addr()))
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *rawLink) close() error {
	var errs []error
	if l.steering != nil {
		errs = append(errs, l.steering.Close())
	}
	if l.sock != nil {
		errs = append(errs, l.sock.Close())
	}
	if l.umem != nil {
		errs = append(errs, l.umem.Close())
	}
	return errors.Join(errs...)
}

// setHeader builds the constant part of the headers.
func (l *rawLink) setHeader(j Job, port uint16) error {
	src, err := net.ParseMAC(j.Local.MAC)
	if err != nil {
		return fmt.Errorf("local MAC: %w", err)
	}
	dst, err := net.ParseMAC(j.Peer.MAC)
	if err != nil {
		return fmt.Errorf("peer MAC: %w", err)
	}
	if len(src) != 6 || len(dst) != 6 || !j.Local.Addr.Addr().Is4() || !j.Peer.Addr.Addr().Is4() {
		return errors.New("raw needs Ethernet and IPv4 on both sides")
	}
	h := l.header[:]
	copy(h[0:], dst)
	copy(h[6:], src)
	binary.BigEndian.PutUint16(h[12:], 0x0800)
	h[14], h[22], h[23] = 0x45, 64, 17 // version and header length, TTL, UDP
	h[20] = 0x40                       // don't fragment
	from, to := j.Local.Addr.Addr().As4(), j.Peer.Addr.Addr().As4()
	copy(h[26:], from[:])
	copy(h[30:], to[:])
	binary.BigEndian.PutUint16(h[34:], 49152)
	binary.BigEndian.PutUint16(h[36:], port)
	return nil
}

// payloadRoom returns the payload bytes of one packet at this MTU.
func (l *rawLink) payloadRoom() int { return rawRoom(l.mtu) }

func rawRoom(mtu int) int { return mtu - (rawHeader - 14) - rawShim }

// putHeader writes all headers of a packet with n payload bytes to b.
func (l *rawLink) putHeader(b []byte, kind byte, seq uint64, n int) {
	copy(b, l.header[:])
	udp := 8 + rawShim + n
	binary.BigEndian.PutUint16(b[16:], uint16(20+udp))
	binary.BigEndian.PutUint16(b[38:], uint16(udp))
	var sum uint32
	for i := 14; i < 34; i += 2 {
		if i != 24 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
	}
	sum = sum>>16 + sum&0xffff
	sum += sum >> 16
	binary.BigEndian.PutUint16(b[24:], ^uint16(sum))
	shim := b[rawHeader : rawHeader+rawShim]
	clear(shim)
	shim[0] = kind
	binary.BigEndian.PutUint64(shim[8:], seq)
}

// push builds one packet in free frames and queues it for flush. It returns false if no frames or slots are free.
func (l *rawLink) push(kind byte, seq uint64, payload []byte) bool {
	frames := (rawHeader + rawShim + len(payload) + xdp.FrameSize - 1) / xdp.FrameSize
	if l.sock.TxFree() < frames || len(l.tx)+frames > cap(l.tx) {
		return false
	}
	for i := 0; ; i++ {
		addr, _ := l.sock.AllocTx() // succeeds, because TxFree was checked
		frame := l.umem.Frame(addr)
		n := 0
		if i == 0 {
			l.putHeader(frame, kind, seq, len(payload))
			n = rawHeader + rawShim
		}
		c := copy(frame[n:], payload)
		payload = payload[c:]
		d := xdp.Desc{Addr: addr, Len: uint32(n + c)}
		if len(payload) == 0 {
			l.tx = append(l.tx, d)
			return true
		}
		d.Options = xdp.PacketContinues
		l.tx = append(l.tx, d)
	}
}

// refer queues one packet whose payload stays in the arena, behind a frame with headers. It returns false if no frames or slots are
// free.
func (l *rawLink) refer(seq uint64, off, n int) bool {
	at := l.umem.ArenaBase() + uint64(off)
	pieces := (int(at%xdp.FrameSize) + n + xdp.FrameSize - 1) / xdp.FrameSize
	if l.sock.TxFree() < 1 || len(l.tx)+1+pieces > cap(l.tx) {
		return false
	}
	head, _ := l.sock.AllocTx() // succeeds, because TxFree was checked
	l.putHeader(l.umem.Frame(head), rawData, seq, n)
	l.tx = append(l.tx, xdp.Desc{Addr: head, Len: rawHeader + rawShim, Options: xdp.PacketContinues})
	for n > 0 {
		piece := min(n, xdp.FrameSize-int(at%xdp.FrameSize))
		l.tx = append(l.tx, xdp.Desc{Addr: at, Len: uint32(piece), Options: xdp.PacketContinues})
		at += uint64(piece)
		n -= piece
	}
	l.tx[len(l.tx)-1].Options = 0
	return true
}

// flush sends everything that was pushed, and reaps sent frames.
func (l *rawLink) flush() error {
	for rest := l.tx; len(rest) > 0; {
		n := l.sock.Transmit(rest)
		rest = rest[n:]
		if _, err := l.sock.Kick(); err != nil {
			return err
		}
		l.sock.Complete(nil)
		if n == 0 && l.sock.TxUnsent() == 0 {
			return errors.New("the transmit ring takes no packets although it is empty")
		}
	}
	l.tx = l.tx[:0]
	return nil
}

// receive returns received packets. The caller must call recycle.
func (l *rawLink) receive() []xdp.Desc { return l.descs[:l.sock.Receive(l.descs)] }

// recycle frees the frames of descs and refills the fill ring.
func (l *rawLink) recycle(descs []xdp.Desc) {
	for i := range descs {
		l.sock.Recycle(descs[i].Addr)
	}
	l.sock.Refill()
}

// parse reads the shim of a packet. kind is 0 for other packets.
func (l *rawLink) parse(packet []xdp.Desc) (kind byte, seq uint64) {
	if packet[0].Len < rawHeader+rawShim {
		return 0, 0
	}
	shim := l.umem.Bytes(packet[0].Addr+rawHeader, rawShim)
	return shim[0], binary.BigEndian.Uint64(shim[8:])
}

// copyOut copies a packet's payload to dst and returns its length.
func (l *rawLink) copyOut(dst []byte, packet []xdp.Desc) int {
	n := 0
	for i, d := range packet {
		b := l.umem.Bytes(d.Addr, int(d.Len))
		if i == 0 {
			b = b[rawHeader+rawShim:]
		}
		n += copy(dst[n:], b)
	}
	return n
}
