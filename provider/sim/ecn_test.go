//go:build !race

package sim

import (
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/provider"
)

// markless is how long a flow may take on these paths to detect that marks do not work: three consecutive time-outs, the first of
// them below 2 ms, or 16 round trips of one packet, some 1 ms apart, after the window has shrunk to one packet.
const markless = 100 * time.Millisecond

// goodputWhen returns the goodput of one flow in Mb/s, from markless after the moment at which happens changes the path.
func goodputWhen(t *testing.T, kind provider.RequestKind, config HostConfig, happens func(f *fleet)) int {
	t.Helper()
	b := &Bulk{Kind: kind, Size: 32 << 10, Depth: 16}
	f := newFleetOf(t, config, Conditions{Delay: testDelay}, Bottleneck{Rate: testRate, Queue: 500e3}, b)
	b.from.Narrow(&Bottleneck{Rate: testRate, Queue: 500e3})
	b.Start(0)
	f.pass(t, 20*time.Millisecond)
	happens(f)
	f.pass(t, markless)
	b.Forget()
	f.pass(t, 100*time.Millisecond)
	return b.Done * b.Size * 8 * 10 / 1e6
}

// A path that marks all packets, or begins to lose packets with ECT(0), soon carries as much as a path without marks.
func TestPathsThatDoNotBearMarks(t *testing.T) {
	nothing := func(*fleet) {}
	both := func(f *fleet) {
		f.LoseECT(f.hosts[0], f.hosts[1])
		f.LoseECT(f.hosts[1], f.hosts[0])
	}
	for _, center := range []bool{false, true} {
		config := bulkConfig(testMTU)
		config.Engine.DataCenter = center
		plain := config
		plain.Engine.NoECN = true
		for _, kind := range []provider.RequestKind{provider.KindWrite, provider.KindRead} {
			without := goodputWhen(t, kind, plain, both)
			for _, c := range []struct {
				name    string
				happens func(f *fleet)
			}{
				{"nothing", nothing},
				{"all marked", func(f *fleet) { f.Rates[Mark] = 10000 }},
				{"lost both ways", both},
				{"lost one way", func(f *fleet) { f.LoseECT(f.hosts[1], f.hosts[0]) }},
				{"lost the other way", func(f *fleet) { f.LoseECT(f.hosts[0], f.hosts[1]) }},
			} {
				got := goodputWhen(t, kind, config, c.happens)
				t.Logf("data center %v, kind %d, %s: %d Mb/s, %d without marks", center, kind, c.name, got, without)
				if got*10 < without*9 {
					t.Errorf("data center %v, kind %d, %s: %d Mb/s, %d without marks", center, kind, c.name, got, without)
				}
			}
		}
	}
}
