package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// These are attributes of linux/if_link.h that package syscall lacks, and the attach modes of IFLA_XDP_ATTACHED.
const (
	iflaXDP         = 43
	iflaXDPAttached = 2
	iflaXDPDrvProg  = 5
	iflaXDPSkbProg  = 6
	iflaXDPHwProg   = 7
	nlaTypeMask     = 0x3fff // without NLA_F_NESTED and NLA_F_NET_BYTEORDER

	rtattrLen = 4 // struct rtattr: length and type
)

// ProgramInfo describes a loaded nd_steer program.
type ProgramInfo struct {
	ID      uint32
	LinkID  uint32 // zero if no bpf_link holds it
	Ifindex int    // interface of the link, numbered in its own namespace; zero if it is not attached
	PID     int    // a process that holds the program or its link; zero if none was found
	Comm    string // the name of that process
}

// Programs lists every loaded nd_steer program of this machine, whoever loaded it. Listing holds each program for a moment, so a program
// that is closed meanwhile may still appear in another list.
func Programs() ([]ProgramInfo, error) {
	var found []ProgramInfo
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("bpf: list programs: %w", err)
		}
		id = next
		if programName(id) != steerProgNdSteer {
			continue
		}
		info := ProgramInfo{ID: uint32(id)}
		info.LinkID, info.Ifindex = linkOf(id, func(ifindex int) bool { return ifindex != 0 })
		info.PID, info.Comm = processOf(uint32(id), info.LinkID)
		found = append(found, info)
	}
}

// Holder describes the XDP program of an interface, or returns nil if there is none. The field Mode of the result has no meaning.
func Holder(ifindex int, name string) (*HeldError, error) {
	return holderOf(Config{Ifindex: ifindex, Interface: name})
}

// holderOf describes the program attached to the interface of cfg, or returns nil if there is none.
func holderOf(cfg Config) (*HeldError, error) {
	id, mode, err := attachedProgram(cfg.Ifindex)
	if err != nil || id == 0 {
		return nil, err
	}
	held := &HeldError{Interface: cfg.Interface, Mode: cfg.Mode, HolderMode: mode, ProgramID: id}
	held.ProgramName = programName(ebpf.ProgramID(id))
	held.Ours = held.ProgramName == steerProgNdSteer
	held.LinkID, _ = linkOf(ebpf.ProgramID(id), func(ifindex int) bool { return ifindex == cfg.Ifindex })
	held.PID, held.Comm = processOf(id, held.LinkID)
	return held, nil
}

// attachedProgram returns the XDP program of an interface, in any mode.
func attachedProgram(ifindex int) (id uint32, mode string, err error) {
	answer, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return 0, "", fmt.Errorf("list interfaces: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return 0, "", fmt.Errorf("list interfaces: %w", err)
	}
	for _, message := range messages {
		if message.Header.Type != syscall.RTM_NEWLINK || len(message.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		if int(int32(binary.NativeEndian.Uint32(message.Data[4:]))) != ifindex { // ifinfomsg.ifi_index
			continue
		}
		xdp := attribute(message.Data[syscall.SizeofIfInfomsg:], iflaXDP)
		for _, candidate := range []struct {
			attribute uint16
			mode      string
		}{{iflaXDPDrvProg, "native"}, {iflaXDPSkbProg, "generic"}, {iflaXDPHwProg, "offload"}} {
			if value := attribute(xdp, candidate.attribute); len(value) >= 4 {
				return binary.NativeEndian.Uint32(value), candidate.mode, nil
			}
		}
	}
	return 0, "", nil
}

// attribute returns the value of the first attribute of a type in a list of netlink attributes, or nil if there is none.
func attribute(list []byte, want uint16) []byte {
	for len(list) >= rtattrLen {
		length := int(binary.NativeEndian.Uint16(list))
		if length < rtattrLen || length > len(list) {
			return nil
		}
		if binary.NativeEndian.Uint16(list[2:])&nlaTypeMask == want {
			return list[rtattrLen:length]
		}
		list = list[min((length+3)&^3, len(list)):] // attributes start at multiples of four
	}
	return nil
}

// programName returns the name of a program, or "" if the program was unloaded or the kernel does not tell.
func programName(id ebpf.ProgramID) string {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return ""
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return ""
	}
	return info.Name
}

// linkOf returns an XDP link that attaches a program, and its interface; zeros if there is none on a requested interface. One program may
// be attached to several interfaces, to some of them without a link. A link that was detached is on interface zero. Links of other network
// namespaces are seen too, with the interface numbers of their namespace.
func linkOf(id ebpf.ProgramID, on func(ifindex int) bool) (linkID uint32, ifindex int) {
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.Program != id {
			continue
		}
		if xdp := info.XDP(); xdp != nil && on(int(xdp.Ifindex)) {
			return uint32(info.ID), int(xdp.Ifindex)
		}
	}
	return 0, 0
}

// processOf looks for a process with a descriptor of the link, or without a link of the program. Other processes open a program only for
// a moment. Processes that may not be inspected are skipped.
func processOf(programID, linkID uint32) (pid int, comm string) {
	key, id := "link_id", linkID
	if linkID == 0 {
		key, id = "prog_id", programID
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/fdinfo/[0-9]*") // the pattern is valid, and no other error is possible
	for _, path := range paths {
		info, err := os.ReadFile(path)
		if err != nil || !holds(string(info), key, id) {
			continue
		}
		process := filepath.Dir(filepath.Dir(path))
		pid, _ = strconv.Atoi(filepath.Base(process)) // the pattern allows only digits
		name, _ := os.ReadFile(process + "/comm")     // a process that has just ended has no name
		return pid, strings.TrimSpace(string(name))
	}
	return 0, ""
}

// holds reports whether the fdinfo of a descriptor has a line "key: id".
func holds(fdinfo, key string, id uint32) bool {
	for line := range strings.Lines(fdinfo) {
		value, ok := strings.CutPrefix(line, key+":")
		if ok && strings.TrimSpace(value) == strconv.FormatUint(uint64(id), 10) {
			return true
		}
	}
	return false
}
