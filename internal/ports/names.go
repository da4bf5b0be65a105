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
	// FirstAutomatic is the first of the ports that connectors without one get.
	FirstAutomatic = 49152
	// Block is how many automatic ports are marked together, so that many connections do not cost a descriptor each.
	Block = 64
)

// ErrTaken says that another socket has a name.
var ErrTaken = errors.New("the name is taken")

// place is an address with its well-known UDP port, as names have it.
type place string

// placeOf names at.
func placeOf(at netip.AddrPort) place { return place("@ndxdp/" + at.String()) }

// of returns the name of an ND port's socket.
func (p place) of(port uint16) string { return fmt.Sprintf("%s/nd/%d", p, port) }

// mark returns the name of a mark on the block of automatic ports from first on.
func (p place) mark(first uint16) string { return fmt.Sprintf("%s/auto/%d", p, first) }

// holder returns the name of the socket of whoever has the well-known port.
func (p place) holder() string { return string(p) + "/udp" }

// Held says whether a process has the name of an address's well-known port, in the calling thread's network namespace. It reads the kernel's table and
// takes nothing: whoever tried for the name would be in the way of an adapter that is opened at that moment.
func Held(at netip.AddrPort) (bool, error) {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	table, err := os.ReadFile("/proc/thread-self/net/unix") // /proc/net is that of the main thread
	if err != nil {
		return false, fmt.Errorf("look for adapters of %s: %w", at, err)
	}
	return holds(string(table), placeOf(at).holder()), nil
}

// stream is the type of a stream socket in /proc/net/unix. Sockets of other types have names of their own.
const stream = "0001"

// holds reports whether a table like /proc/net/unix, which shows abstract names with an @ in front, has the name of a stream socket.
func holds(table, name string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 8 && f[4] == stream && f[7] == name {
			return true
		}
	}
	return false
}

// bind gives an abstract name to a socket. The error is ErrTaken when another one has it.
func bind(fd int, name string) error {
	err := unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if errors.Is(err, unix.EADDRINUSE) {
		return ErrTaken
	}
	return err
}
