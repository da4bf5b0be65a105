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

// MemoryRoom is the memory that this process may still take in its memory cgroups. A process that exceeds the limit is killed, and its
// allocations do not fail before. AF_XDP pins its memory when an adapter is opened, so the room is checked before.
type MemoryRoom struct {
	Left  uint64 // bytes; unlimited if no cgroup has a limit
	Group string // the cgroup with the least room
	Limit string // the file that sets its limit
}

// groupFiles are the files of a cgroup hierarchy that have its memory limit and use.
type groupFiles struct {
	limit, usage string
	given        []string // keys of memory.stat: file pages and caches that the kernel can reclaim
}

// Version 1 does not report how much of its caches can be reclaimed.
var (
	groupsV1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	groupsV2 = groupFiles{"memory.max", "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}}
)

// memoryController is the controller that limits memory. A hierarchy of version 1 may have further controllers.
const memoryController = "memory"

// RoomOfGroups returns the room of this process.
func RoomOfGroups() MemoryRoom {
	groups, _ := os.ReadFile("/proc/self/cgroup") // a limit that cannot be read is ignored
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return roomIn(string(groups), string(mounts))
}

// roomIn returns the least room of some cgroups and their parents. groups has the format of /proc/self/cgroup, and mounts that of
// /proc/self/mountinfo (cgroups(7), proc_pid_mountinfo(5)).
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

// mountOf returns where the hierarchy with the memory controller is mounted, and which cgroup is visible there. A container may see only
// its own cgroup.
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

// unescape decodes the kernel's escapes in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// left returns how many bytes a cgroup leaves.
func (f *groupFiles) left(dir string) uint64 {
	limit, used := number(dir, f.limit), number(dir, f.usage)
	if limit > math.MaxInt64/2 || used == Unlimited { // "max" is no number, and in version 1 the largest number of pages is no limit
		return Unlimited
	}
	stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat")) // without the file no memory counts as reclaimable
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

// number returns the number in a file, or unlimited if there is none.
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

// Unlimited is the number of bytes that stands for no limit.
const Unlimited = math.MaxUint64
