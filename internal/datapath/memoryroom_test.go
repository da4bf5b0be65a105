package datapath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ndxdp/ndxdp/xdp"
)

// The room of a process is that of the tightest of its cgroups, of either version, without what the kernel takes back.
func TestMemoryRoom(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name, list string
		files      map[string]string
		want       memoryRoom
	}{
		{"no cgroups", "", nil, memoryRoom{left: unlimited}},
		{"version 2", "0::/box\n", map[string]string{
			"box/memory.max": "67108864\n", "box/memory.current": "10485760\n", "box/memory.stat": "anon 5242880\ninactive_file 1048576\nactive_file 1048576\n",
		}, memoryRoom{56 * mib, "/box"}},
		{"version 2 without a limit", "0::/box\n", map[string]string{"box/memory.max": "max\n", "box/memory.current": "10485760\n"}, memoryRoom{left: unlimited}},
		{"a limit above", "0::/slice/box\n", map[string]string{
			"slice/box/memory.max": "max\n", "slice/box/memory.current": "0\n", "slice/memory.max": "4194304\n", "slice/memory.current": "1048576\n",
		}, memoryRoom{3 * mib, "/slice"}},
		{"the tighter of two", "0::/slice/box\n", map[string]string{
			"slice/box/memory.max": "4194304\n", "slice/box/memory.current": "0\n", "slice/memory.max": "8388608\n", "slice/memory.current": "6291456\n",
		}, memoryRoom{2 * mib, "/slice"}},
		{"its own as it sees it in a container", "0::/\n", map[string]string{"memory.max": "4194304\n", "memory.current": "1048576\n"}, memoryRoom{3 * mib, "/"}},
		{"outside what it sees", "0::/../../other\n", map[string]string{"memory.max": "4194304\n", "memory.current": "1048576\n"}, memoryRoom{3 * mib, "/"}},
		{"version 1", "4:memory:/box\n1:cpu:/\n0::/\n", map[string]string{
			"memory/box/memory.limit_in_bytes": "67108864\n", "memory/box/memory.usage_in_bytes": "4194304\n", "memory/box/memory.stat": "inactive_file 1\ntotal_inactive_file 1048576\n",
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "1\n",
		}, memoryRoom{61 * mib, "/box"}},
		{"more used than is allowed", "0::/box\n", map[string]string{"box/memory.max": "1048576\n", "box/memory.current": "2097152\n"}, memoryRoom{0, "/box"}},
		{"what is no number", "0::/box\nrubbish\n", map[string]string{"box/memory.max": "much\n", "box/memory.current": "\n"}, memoryRoom{left: unlimited}},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			at := filepath.Join(dir, name)
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
		if got := roomIn(c.list, dir); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if err := pinnable(mib, unlimited, memoryRoom{mib - 1, "/box"}); !errors.Is(err, xdp.ErrLockedMemory) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("%v is neither %v nor %v", err, xdp.ErrLockedMemory, unix.ENOMEM)
	}
}
