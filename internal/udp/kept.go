package udp

import (
	"sync"

	"golang.org/x/sys/unix"
)

// kept is the list of received messages that stay in the socket for a while (decision 8), so that the kernel does not reuse their
// memory at once. The memory is in the receiver's cache, and a sender on another processor of this machine would wait for each
// cache line.
//
// Such a socket is polled by a peek behind the kept messages (SO_PEEK_OFF). Removing messages moves the offset of the next peek, so
// both need the lock.
type kept struct {
	limit int // bytes; 0 if nothing is kept

	mu      sync.Mutex // taken by the receiver, and by goroutines that are about to sleep
	lengths []int      // lengths of kept messages, oldest first
	bytes   int
	large   bool // the newest batch had large messages
	empty   int  // empty messages that Readable removed, and that Receive will not see
	gone    []mmsghdr
}

const (
	// mostKept is the largest number of kept messages. The kernel walks over them to find the next message.
	mostKept = 32
	// largeMessage is the least average length of a batch whose messages are kept. Merged messages are this long. Keeping small
	// ones costs more than it gains.
	largeMessage = 16 << 10
	// keptShare: kept messages may take 1/keptShare of the receive buffer.
	keptShare = 8
)

// keep lets up to limit bytes stay in the socket, if its receive buffer has room and the kernel supports SO_PEEK_OFF.
func (s *Socket) keep(limit int) {
	room, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil || limit > room/keptShare || unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0) != nil {
		return
	}
	s.kept.limit, s.kept.gone = limit, make([]mmsghdr, mostKept)
}

// receive fills msgs with new messages. It returns their number, and the number of empty messages that Readable removed before.
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
		flags = unix.MSG_PEEK | unix.MSG_TRUNC // without MSG_TRUNC, the rest of a message that is too long would be the next message
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

// surplus returns how many of the oldest messages exceed the limits.
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

// judge predicts from a batch whether the next messages are large.
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

// give removes the n oldest messages from the socket, without copying them. If the socket reports an error, the rest is removed
// with the next call.
func (k *kept) give(fd, n int) {
	done := 0
	for done < n {
		taken := recvmmsg(fd, k.gone[:min(n-done, len(k.gone))], unix.MSG_TRUNC) // MSG_TRUNC removes whole messages, which moves the peek offset correctly
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

// Readable reports whether Receive would return messages. Any goroutine may call it. A socket in error, whose interface is gone, is
// not readable.
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
	var look [1]mmsghdr // without a buffer, so that the peek offset stays
	n := recvmmsg(s.fd, look[:], unix.MSG_PEEK)
	if n == 1 && look[0].hdr.Flags&unix.MSG_TRUNC == 0 { // an empty message: the peek removed it completely
		k.add(0)
		k.empty++
	}
	return n == 1
}

// LetGo removes all kept messages from the socket, because nothing has arrived for long. Any goroutine may call it.
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

// Readable reports whether a descriptor is readable, without waiting. A socket in error, whose interface is gone, is not.
func Readable(fd int) bool {
	polled := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, errno := ppoll(&polled)
	return errno != 0 || n > 0 && polled.Revents&unix.POLLIN != 0
}
