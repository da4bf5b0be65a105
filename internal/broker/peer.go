package broker

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is what the kernel knows about the process that connected: user and groups at the time of the connection, and the present
// cgroup.
type Peer struct {
	UID, GID uint32
	Groups   []uint32 // supplementary groups
	Cgroup   string   // path in the cgroup v2 hierarchy as this process sees it, or "" if unknown
	Unknown  error    // why groups or cgroup are unknown, if a rule needs them
}

// inspect reads what the rules of p need to know about the peer. If something cannot be read, rules that do not need it still
// apply.
func (p *Policy) inspect(conn *net.UnixConn, ids *unix.Ucred) *Peer {
	peer := &Peer{UID: ids.Uid, GID: ids.Gid}
	raw, err := conn.SyscallConn()
	if err != nil {
		peer.Unknown = err
		return peer
	}
	var groups, cgroup error
	failed := raw.Control(func(fd uintptr) {
		if len(p.Groups) > 0 {
			peer.Groups, groups = peerGroups(int(fd))
		}
		if len(p.Cgroups) > 0 {
			peer.Cgroup, cgroup = peerCgroup(int(fd), ids.Pid)
		}
	})
	peer.Unknown = errors.Join(failed, groups, cgroup)
	return peer
}
