package broker

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is what the kernel says of the process that connected: user and groups from the moment when it did, the cgroup from now.
type Peer struct {
	UID, GID uint32
	Groups   []uint32 // supplementary ones
	Cgroup   string   // the path in the cgroup v2 hierarchy as this process sees it, or "" if it is not known
	Unknown  error    // why groups or cgroup are not known, if somebody asked for them
}

// inspect asks the kernel for what the rules of p ask for. A fact that cannot be had keeps no peer out that another one admits.
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
