package datapath

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryRoom is the memory that the memory cgroups of this process leave. A process that takes more is killed, because the kernel refuses nothing. AF_XDP pins
// its memory when an adapter is opened, so the room is looked at before.
type memoryRoom struct {
	left  uint64 // bytes; unlimited where no cgroup has a limit
	group string // the cgroup with the least room
}

// groupFiles are where a hierarchy of cgroups tells of memory.
type groupFiles struct {
	mount, limit, usage string
	cache               []string // keys of memory.stat: pages of files, which the kernel takes back
}

var (
	groupsV1 = groupFiles{"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	groupsV2 = groupFiles{"", "memory.max", "memory.current", []string{"inactive_file", "active_file"}}
)

// roomOfGroups is the room of this process.
func roomOfGroups() memoryRoom {
	list, _ := os.ReadFile("/proc/self/cgroup") // what cannot be read has no limit that is known
	return roomIn(string(list), "/sys/fs/cgroup")
}

// roomIn is the least room of the cgroups that a list names like /proc/self/cgroup, and of their parents, for a place where cgroups are mounted.
func roomIn(list, mounted string) memoryRoom {
	least := memoryRoom{left: unlimited}
	for line := range strings.Lines(list) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		files := &groupsV1
		switch {
		case id == "0":
			files = &groupsV2
		case controllers != "memory":
			continue
		}
		for group = filepath.Clean("/" + group); ; group = filepath.Dir(group) {
			if left := files.left(filepath.Join(mounted, files.mount, group)); left < least.left {
				least = memoryRoom{left, group}
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// left is how many bytes a cgroup leaves.
func (f *groupFiles) left(dir string) uint64 {
	limit, used := number(dir, f.limit), number(dir, f.usage)
	if limit > math.MaxInt64/2 || used == unlimited { // "max" is no number; of version 1 the largest number of pages is none
		return unlimited
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat")) // without it nothing is known to be taken back
	for line := range bytes.Lines(stat) {
		for _, key := range f.cache {
			if text, ok := bytes.CutPrefix(line, []byte(key+" ")); ok {
				n, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
				used -= min(n, used)
			}
		}
	}
	return limit - min(used, limit)
}

// number is the number in a file; unlimited when there is none.
func number(dir, name string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return unlimited
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return unlimited
	}
	return n
}
