package inspect

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Stopped describes a process, at the other end of a connection, that is stopped by a signal or a debugger. It is empty if the
// process runs or its state is unknown.
func Stopped(c *net.UnixConn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	pid := int32(0)
	_ = raw.Control(func(fd uintptr) { // a closed connection has no process
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = peer.Pid
		}
	})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// proc_pid_stat(5): the state follows the command's name, which is in parentheses and may contain any character.
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	if len(after) < 2 {
		return ""
	}
	switch after[1] {
	case 'T':
		return fmt.Sprintf("process %d is stopped (kill -CONT %d lets it go on)", pid, pid)
	case 't':
		return fmt.Sprintf("a debugger has stopped process %d", pid)
	}
	return ""
}
