package udp

import (
	"sync"

	"golang.org/x/sys/unix"
)

// kept are messages that were received and are still in the socket (decision 8), so that the kernel does not reuse their memory at once.
// The receiver's cache holds this memory, and a sender on another processor of the machine would wait for each cache line.
//
// Polling such a socket is a peek behind the kept messages (SO_PEEK_OFF). Taking messages out moves the offset of the next peek, so both
// need the lock.
type kept struct {
	limit int // bytes; 0 when nothing is kept

	mu      sync.Mutex // the receiver, and whoever is about to sleep
	lengths []int      // of what is kept, oldest first
	bytes   int
	large   bool // the newest batch was of large messages
	empty   int  // messages without a byte that Readable saw, and Receive will not
	gone    []mmsghdr
}

const (
	// mostKept is how many messages are kept at most: the kernel passes them one by one to find the next.
	mostKept = 32
	// largeMessage is how long the messages of a batch are on the average when they are kept: merged ones. Small ones cost more than they gain.
	largeMessage = 16 << 10
	// keptShare of the receive buffer may be taken by what is kept.
	keptShare = 8
)

// keep has up to limit bytes stay in the socket, if its receive buffer has room for that and the kernel can peek behind them.
func (s *Socket) keep(limit int) {
	room, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || limit > room/keptShare || unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0) != nil {
		return
	}
	s.kept.limit, s.kept.gone = limit, make([]mmsghdr, mostKept)
}

// receive fills msgs with new messages. It returns their number, and how many empty messages Readable had seen before.
func (s *Socket) receive(msgs []mmsghdr) (n, empty int) {
	k := &s.kept
	if k.limit == 0 {
		return recvmmsg(s.fd, msgs, 0), 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.large {
		k.give(s.fd, len(k.lengths))
	}
	flags := 0
	if k.large || len(k.lengths) > 0 {
		flags = unix.MSG_PEEK | unix.MSG_TRUNC // else the rest of a message that is too long would be the next one
	}
	n = recvmmsg(s.fd, msgs, flags)
	k.judge(msgs[:n])
	if flags != 0 {
		for i := range msgs[:n] {
			k.add(int(msgs[i].n))
		}
		k.give(s.fd, k.surplus())
	}
	empty, k.empty = k.empty, 0
	return n, empty
}

// surplus says how many of the oldest are too many.
func (k *kept) surplus() (n int) {
	bytes := k.bytes
	for n < len(k.lengths) && (bytes > k.limit || len(k.lengths)-n > mostKept) {
		bytes -= k.lengths[n]
		n++
	}
	return n
}

func (k *kept) add(n int) {
	k.lengths = append(k.lengths, n)
	k.bytes += n
}

// judge says what the messages after this batch probably are like.
func (k *kept) judge(batch []mmsghdr) {
	if len(batch) == 0 {
		return
	}
	bytes := 0
	for i := range batch {
		bytes += int(batch[i].n)
	}
	k.large = bytes >= len(batch)*largeMessage
}

// give takes the n oldest messages out of the socket. Nothing is copied, because there is no room for a byte. Messages that stay because
// the socket reported an error go with the next ones.
func (k *kept) give(fd, n int) {
	done := 0
	for done < n {
		taken := recvmmsg(fd, k.gone[:min(n-done, len(k.gone))], unix.MSG_TRUNC) // whole, for the place of the next peek
		if taken == 0 {
			break
		}
		done += taken
	}
	for _, length := range k.lengths[:done] {
		k.bytes -= length
	}
	k.lengths = k.lengths[:copy(k.lengths, k.lengths[done:])]
}

// Readable reports whether Receive would find something. Any goroutine may ask. A socket in error, whose interface is gone, is not readable.
func (s *Socket) Readable() bool {
	k := &s.kept
	if k.limit == 0 {
		return Readable(s.fd)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lengths) == 0 {
		return Readable(s.fd)
	}
	var look [1]mmsghdr // without room: the place of the next peek stays
	n := recvmmsg(s.fd, look[:], unix.MSG_PEEK)
	if n == 1 && look[0].hdr.Flags&unix.MSG_TRUNC == 0 { // it has no byte: that was all of it
		k.add(0)
		k.empty++
	}
	return n == 1
}

// LetGo gives what is kept back to the kernel: nothing has come for long. Any goroutine may call it.
func (s *Socket) LetGo() {
	k := &s.kept
	if k.limit == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.large = false
	k.give(s.fd, len(k.lengths))
}

// Readable looks without waiting whether a descriptor has something to read. A socket in error, whose interface is gone, has not.
func Readable(fd int) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return err != nil || n > 0 && fds[0].Revents&unix.POLLIN != 0
}
