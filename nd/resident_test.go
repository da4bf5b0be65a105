package nd

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
)

// A process with one adapter and one idle connection has little resident memory in total, before the first transfer and again after
// 64 MiB.
func TestResidentMemory(t *testing.T) {
	t.Parallel()
	program := netlabtest.Build(t, peerProgram)
	for _, c := range []struct {
		datapath Datapath
		mtu, mib int
	}{
		{DatapathGeneric, 1500, 32},
		{DatapathGeneric, 9000, 32},
		{DatapathGeneric, 65000, 32},
		{DatapathUDP, 1500, 32},
		{DatapathUDP, 65000, 32},
	} {
		t.Run(fmt.Sprintf("%s/MTU%d", c.datapath, c.mtu), func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, program, c.datapath, c.mtu)
			var kib [2]int
			for i := range kib {
				if i > 0 {
					p.Ask(t, "write 64")
				}
				var err error
				kib[i], err = strconv.Atoi(p.Ask(t, "rest"))
				must(t, err)
			}
			p.End(t)
			t.Logf("%d KiB resident, %d after 64 MiB were written", kib[0], kib[1])
			if most := max(kib[0], kib[1]); most > c.mib<<10 {
				t.Errorf("%d KiB are resident, want at most %d MiB", most, c.mib)
			}
		})
	}
}
