package ports

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// FirstAutomatic is the first of the ports for connectors that name no port.
	FirstAutomatic = 49152
	// Block is the number of automatic ports that share a mark. With one mark for each port, every connection would cost a descriptor.
	Block = 64
)

// ErrTaken means that another socket has the name.
var ErrTaken = errors.New("the name is taken")

// place is an address with its well-known UDP port, in the form that names contain.
type place string

// placeOf names at.
func placeOf(at netip.AddrPort) place { return place("@ndxdp/" + at.String()) }

// of returns the name of an ND port's socket.
func (p place) of(port uint16) string { return fmt.Sprintf("%s/nd/%d", p, port) }

// mark returns the name of a mark on the block of automatic ports that begins at first.
func (p place) mark(first uint16) string { return fmt.Sprintf("%s/auto/%d", p, first) }

// holder returns the name of the socket that stands for the well-known port.
func (p place) holder() string { return string(p) + "/udp" }

// Held reports whether a process holds the name of an address's well-known port, in the calling thread's network namespace. It reads the
// kernel's table and takes nothing. Taking the name for a moment could disturb an adapter that opens at that moment.
func Held(at netip.AddrPort) (bool, error) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	table, err := os.ReadFile("/proc/thread-self/net/unix") // /proc/net has the main thread's table
	if err != nil {
		return false, fmt.Errorf("look for adapters of %s: %w", at, err)
	}
	return holds(string(table), placeOf(at).holder()), nil
}

// stream is the type of a stream socket in /proc/net/unix. Sockets of other types have separate names.
const stream = "0001"

// holds reports whether a table like /proc/net/unix has a stream socket of this name. The table shows abstract names with a leading @.
func holds(table, name string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 8 && f[4] == stream && f[7] == name {
			return true
		}
	}
	return false
}

// bind gives a socket an abstract name. The error is ErrTaken if another socket has the name.
func bind(fd int, name string) error {
	err := unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if errors.Is(err, unix.EADDRINUSE) {
		return ErrTaken
	}
	return err
}
