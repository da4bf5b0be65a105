package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The free memory of a process is that of the tightest of its cgroups, of either version. Memory that the kernel can reclaim counts
// as free.
func TestMemoryRoom(t *testing.T) {
	const (
		mib     = 1 << 20
		unified = "30 22 0:27 / DIR rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "31 30 0:28 / DIR/cpu rw,relatime - cgroup cgroup rw,cpu\n34 30 0:31 / DIR/memory rw,relatime - cgroup cgroup rw,memory\n"
	)
	for _, c := range []struct {
		name, list string
		mounts     string // DIR stands for the directory of the files
		files      map[string]string
		want       MemoryRoom
	}{
		{"no cgroups", "", unified, nil, MemoryRoom{Left: Unlimited}},
		{"nothing mounted", "0::/box\n", "22 1 0:5 / /proc rw - proc proc rw\nrubbish\n", map[string]string{"box/memory.max": "1\n", "box/memory.current": "1\n"}, MemoryRoom{Left: Unlimited}},
		{"version 2", "0::/box\n", unified, map[string]string{
			"box/memory.max": "67108864\n", "box/memory.current": "10485760\n", "box/memory.stat": "anon 5242880\ninactive_file 1048576\nactive_file 1048576\nslab_reclaimable 2097152\nslab_unreclaimable 1048576\n",
		}, MemoryRoom{58 * mib, "/box", "memory.max"}},
		{"version 2 without a limit", "0::/box\n", unified, map[string]string{"box/memory.max": "max\n", "box/memory.current": "10485760\n"}, MemoryRoom{Left: Unlimited}},
		{"a limit above", "0::/slice/box\n", unified, map[string]string{
			"slice/box/memory.max": "max\n", "slice/box/memory.current": "0\n", "slice/memory.max": "4194304\n", "slice/memory.current": "1048576\n",
		}, MemoryRoom{3 * mib, "/slice", "memory.max"}},
		{"the tighter of two", "0::/slice/box\n", unified, map[string]string{
			"slice/box/memory.max": "4194304\n", "slice/box/memory.current": "0\n", "slice/memory.max": "8388608\n", "slice/memory.current": "6291456\n",
		}, MemoryRoom{2 * mib, "/slice", "memory.max"}},
		{"its own as it sees it in a container", "0::/\n", unified, map[string]string{"memory.max": "4194304\n", "memory.current": "1048576\n"}, MemoryRoom{3 * mib, "/", "memory.max"}},
		{"outside what it sees", "0::/../../other\n", unified, map[string]string{"memory.max": "4194304\n", "memory.current": "1048576\n"}, MemoryRoom{3 * mib, "/", "memory.max"}},
		{"version 1", "4:memory:/box\n1:cpu:/\n0::/\n", hybrid, map[string]string{
			"memory/box/memory.limit_in_bytes": "67108864\n", "memory/box/memory.usage_in_bytes": "4194304\n", "memory/box/memory.stat": "inactive_file 1\ntotal_inactive_file 1048576\n",
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "1\n",
		}, MemoryRoom{61 * mib, "/box", "memory.limit_in_bytes"}},
		{"version 1 with the controllers of one hierarchy", "4:cpu,cpuacct,memory:/box\n", "34 30 0:31 / DIR/cpu,cpuacct,memory rw,relatime - cgroup cgroup rw,cpu,cpuacct,memory\n", map[string]string{
			"cpu,cpuacct,memory/box/memory.limit_in_bytes": "4194304\n", "cpu,cpuacct,memory/box/memory.usage_in_bytes": "1048576\n",
		}, MemoryRoom{3 * mib, "/box", "memory.limit_in_bytes"}},
		{"a hierarchy whose name has the controller's in it", "4:memoryless,cpu:/box\n", hybrid, map[string]string{
			"memory/box/memory.limit_in_bytes": "1\n", "memory/box/memory.usage_in_bytes": "1\n",
		}, MemoryRoom{Left: Unlimited}},
		{"version 1 as a container sees its own", "4:memory:/docker/1\n", "34 30 0:31 /docker/1 DIR/own\\040place rw - cgroup cgroup rw,memory\n", map[string]string{
			"own place/memory.limit_in_bytes": "4194304\n", "own place/memory.usage_in_bytes": "1048576\n",
		}, MemoryRoom{3 * mib, "/docker/1", "memory.limit_in_bytes"}},
		{"version 2 as a container sees its parent's", "0::/pod/1\n", "34 30 0:31 /pod DIR rw - cgroup2 none rw\n", map[string]string{
			"memory.max": "4194304\n", "memory.current": "1048576\n", "1/memory.max": "max\n", "1/memory.current": "0\n",
		}, MemoryRoom{3 * mib, "/pod", "memory.max"}},
		{"more used than is allowed", "0::/box\n", unified, map[string]string{"box/memory.max": "1048576\n", "box/memory.current": "2097152\n"}, MemoryRoom{0, "/box", "memory.max"}},
		{"what is no number", "0::/box\nrubbish\n", unified, map[string]string{"box/memory.max": "much\n", "box/memory.current": "\n"}, MemoryRoom{Left: Unlimited}},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			at := filepath.Join(dir, name)
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
		if got := roomIn(c.list, strings.ReplaceAll(c.mounts, "DIR", dir)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
