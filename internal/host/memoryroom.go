package host

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MemoryRoom is the memory that the memory cgroups of this process leave. A process that takes more is killed, because the kernel refuses nothing. AF_XDP pins
// its memory when an adapter is opened, so the room is looked at before.
type MemoryRoom struct {
	Left  uint64 // bytes; unlimited where no cgroup has a limit
	Group string // the cgroup with the least room
	Limit string // the file that sets its limit
}

// groupFiles are where a hierarchy of cgroups tells of memory.
type groupFiles struct {
	limit, usage string
	given        []string // keys of memory.stat: memory that the kernel takes back, pages of files and caches
}

// Version 1 does not say how much of its caches can be taken back.
var (
	groupsV1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	groupsV2 = groupFiles{"memory.max", "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}}
)

// memoryController is the controller that limits memory. A hierarchy of version 1 may have further ones.
const memoryController = "memory"

// RoomOfGroups is the room of this process.
func RoomOfGroups() MemoryRoom {
	groups, _ := os.ReadFile("/proc/self/cgroup") // a limit that cannot be read is not known
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return roomIn(string(groups), string(mounts))
}

// roomIn is the least room of the cgroups in a list like /proc/self/cgroup, and of their parents, in hierarchies that are mounted as a list like
// /proc/self/mountinfo says (cgroups(7), proc_pid_mountinfo(5)).
func roomIn(groups, mounts string) MemoryRoom {
	least := MemoryRoom{Left: Unlimited}
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		files, kind := &groupsV1, "cgroup"
		switch {
		case id == "0":
			files, kind = &groupsV2, "cgroup2"
		case !slices.Contains(strings.Split(controllers, ","), memoryController):
			continue
		}
		root, at := mountOf(mounts, kind)
		if at == "" {
			continue
		}
		for group = filepath.Clean("/" + group); ; group = filepath.Dir(group) {
			inside := group
			if rel, err := filepath.Rel(root, group); err == nil && filepath.IsLocal(rel) {
				inside = rel
			}
			if left := files.left(filepath.Join(at, inside)); left < least.Left {
				least = MemoryRoom{left, group, files.limit}
			}
			if group == root || group == "/" {
				break
			}
		}
	}
	return least
}

// mountOf is where the hierarchy with the memory controller is mounted, and the cgroup that is seen there: a container may see its own only.
func mountOf(mounts, kind string) (root, at string) {
	for line := range strings.Lines(mounts) {
		place, system, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(place), strings.Fields(system)
		if len(where) < 5 || len(what) < 3 || what[0] != kind ||
			kind == "cgroup" && !slices.Contains(strings.Split(what[2], ","), memoryController) {
			continue
		}
		return unescape.Replace(where[3]), unescape.Replace(where[4])
	}
	return "", ""
}

// unescape undoes what the kernel does to names in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// left is how many bytes a cgroup leaves.
func (f *groupFiles) left(dir string) uint64 {
	limit, used := number(dir, f.limit), number(dir, f.usage)
	if limit > math.MaxInt64/2 || used == Unlimited { // "max" is no number; of version 1 the largest number of pages is none
		return Unlimited
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat")) // without it nothing is known to be taken back
	for line := range bytes.Lines(stat) {
		for _, key := range f.given {
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
		return Unlimited
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return Unlimited
	}
	return n
}

// Unlimited is as much memory as there is.
const Unlimited = math.MaxUint64
