package ndxdp_test

// fence lists the packages that a directory may import in addition to the standard library.
type fence struct {
	ours    []string // directories of this module, or their parents ending in "/"
	theirs  []string // import paths of other modules, or prefixes ending in "/..."
	noStd   []string // standard packages refused here, although the rest of the standard library is welcome
	usedBy  []string // when set, the only directories that may import this one
	tests   []string // packages that its tests may import as well: directories of this module, import paths of other modules
	noClock bool     // no machine clock and no global randomness (invariants of a sans-I/O engine)
}

// object is the fence of an object of the engine that only the engine imports.
func object(ours ...string) fence {
	return fence{ours: ours, noStd: []string{"net", "os", "syscall"}, usedBy: []string{"provider"}, noClock: true}
}

// shared is the fence of an object that other packages import, too.
func shared(f fence, others ...string) fence {
	f.usedBy = append(f.usedBy, others...)
	return f
}

// fences has the import rules; docs/ARCHITECTURE.md explains them. A directory without an entry may not exist: the author of a new
// package decides here what it may import.
var fences = map[string]fence{
	"wire": {ours: []string{"internal/crc32c"}, noStd: []string{"net", "os", "unsafe"}},
	"internal/crc32c": {
		theirs: []string{"golang.org/x/sys/cpu"}, noStd: []string{"net", "os", "unsafe"}, usedBy: []string{"wire"},
	},
	"internal/aead":              {theirs: []string{"golang.org/x/crypto/chacha20poly1305"}, noStd: []string{"net", "os", "unsafe"}, usedBy: []string{"provider/internal/secure", "internal/shaker", "provider/internal/trace", "internal/shaker/shakertest", "internal/tlshake", "nd/ndcapture", "provider/sim"}, noClock: true},
	"internal/shaker":            {ours: []string{"internal/aead", "wire"}, noStd: []string{"net", "os", "crypto/tls"}, usedBy: []string{"provider", "provider/sim", "internal/tlshake", "internal/shaker/shakertest"}, noClock: true},
	"internal/shaker/shakertest": {ours: []string{"internal/aead", "internal/shaker", "wire"}, noStd: []string{"net", "os", "crypto/tls"}, usedBy: []string{"provider/sim"}, noClock: true},
	"internal/clock":             {},
	"internal/genetlink": {
		theirs: []string{"github.com/vishvananda/netlink/nl", "golang.org/x/sys/unix"},
		usedBy: []string{"internal/netlab", "internal/host", "internal/datapath", "internal/datapath/follow", "internal/datapath/plan", "nd/ndhealth"},
	},
	"internal/netlab": {
		ours:   []string{"internal/genetlink"},
		theirs: []string{"github.com/vishvananda/netlink/...", "github.com/vishvananda/netns", "golang.org/x/sys/unix"},
		usedBy: []string{"bench", "cmd/", "internal/netlab/netlabtest"},
	},
	"internal/netlab/impair": {
		theirs: []string{"github.com/cilium/ebpf/...", "github.com/vishvananda/netlink/...", "golang.org/x/sys/unix"},
		usedBy: []string{"bench", "nd/ndnet"},
	},
	"internal/netlab/netlabtest": {ours: []string{"internal/netlab", "wire"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{}},
	"internal/buildinfo":         {usedBy: []string{"bench", "capi", "nd", "nd/ndmetrics", "cmd/"}},
	"cmd/internal/cli": {
		ours:   []string{"nd", "nd/ndtls", "internal/buildinfo"},
		theirs: []string{"github.com/spf13/cobra", "github.com/spf13/cobra/doc", "github.com/schollz/progressbar/v3", "golang.org/x/term"},
		usedBy: []string{"cmd/"},
	},
	"internal/tlshake":     {ours: []string{"internal/aead", "internal/shaker", "wire"}, usedBy: []string{"internal/verbs"}},
	"internal/conformance": {usedBy: []string{}},
	"internal/mutants":     {}, "internal/testrun": {}, "internal/walk": {ours: []string{"nd"}},
	"internal/testhelp":  {theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{}},
	"internal/user":      {usedBy: []string{"internal/broker", "internal/ports", "internal/inspect", "internal/hostkey", "nd/ndinspect"}},
	"internal/broker":    {ours: []string{"internal/user"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath", "internal/datapath/plan", "cmd/ndbroker"}},
	"internal/icmp":      {ours: []string{"wire", "internal/udp"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath"}},
	"internal/doorbell":  {ours: []string{"internal/ports", "internal/udp"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath/sharing", "nd/ndnet"}},
	"internal/ports":     {ours: []string{"internal/udp", "internal/user"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath/sharing", "internal/doorbell"}},
	"internal/rxring":    {theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath"}, tests: []string{"bpf"}},
	"internal/udp":       {ours: []string{"internal/hugepage"}, theirs: []string{"golang.org/x/sys/unix"}},
	"internal/procmap":   {theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/verbs"}},
	"internal/stackroom": {noStd: []string{"net", "os", "syscall"}, usedBy: []string{"capi"}},
	"internal/hugepage":  {theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/udp", "internal/verbs"}},
	"xdp":                {theirs: []string{"golang.org/x/sys/unix"}}, "xdp/xdptest": {ours: []string{"xdp"}},
	"bpf":      {theirs: []string{"github.com/cilium/ebpf/...", "golang.org/x/sys/unix"}, tests: []string{"internal/rxring"}},
	"provider": {ours: []string{"wire", "internal/clock", "internal/shaker", "provider/internal/"}, noStd: []string{"net", "os", "syscall"}, tests: []string{"internal/shaker/shakertest", "internal/tlshake"}, noClock: true},
	// The objects of the engine: each imports the objects listed here, and not the engine. Upper layers get what they need from
	// package provider.
	"provider/internal/outcome":       {noStd: []string{"net", "os", "syscall"}, usedBy: []string{"provider", "provider/internal/"}, noClock: true},
	"provider/internal/trace":         shared(object("wire", "internal/aead", "internal/clock", "provider/internal/outcome", "provider/internal/guard", "provider/internal/bulk", "provider/internal/recovery"), "provider/internal/"),
	"provider/internal/memory":        shared(object("provider/internal/outcome"), "provider/internal/"),
	"provider/internal/access":        shared(object("wire", "internal/memfault", "provider/internal/link/linktest", "provider/internal/link", "provider/internal/memory", "provider/internal/outcome", "provider/internal/packet"), "provider/internal/answers"),
	"provider/internal/answers":       object("wire", "provider/internal/link/linktest", "provider/internal/access", "provider/internal/link", "provider/internal/memory", "provider/internal/outcome", "provider/internal/packet", "provider/internal/space"),
	"provider/internal/interleave":    {noStd: []string{"net", "os", "syscall", "time"}, usedBy: []string{"provider", "provider/internal/watch"}, noClock: true},
	"provider/internal/guard":         shared(object("wire", "internal/clock"), "provider/internal/"),
	"provider/internal/completion":    object("internal/clock", "provider/internal/memory", "provider/internal/outcome", "provider/internal/trace"),
	"provider/internal/lifetime":      object("wire", "internal/clock", "provider/internal/link", "provider/internal/outcome"),
	"provider/internal/credit":        object("wire", "internal/clock", "provider/internal/space"),
	"provider/internal/turn":          shared(object("internal/clock"), "provider/internal/"),
	"provider/internal/watch":         object("internal/clock", "provider/internal/interleave", "provider/internal/outcome"),
	"provider/internal/recovery":      shared(object("wire", "internal/clock", "provider/internal/space", "provider/internal/turn"), "provider/internal/trace"),
	"provider/internal/link":          shared(object("wire", "internal/clock"), "provider/internal/link/linktest", "provider/internal/answers", "provider/internal/lifetime", "provider/internal/packet", "provider/internal/ndports"),
	"provider/internal/link/linktest": shared(object("provider/internal/link"), "provider/internal/access", "provider/internal/answers"), // their tests
	"provider/internal/packet":        shared(object("wire", "internal/clock", "provider/internal/link", "provider/internal/secure", "provider/internal/space"), "provider/internal/access", "provider/internal/answers"),
	"provider/internal/ndports":       object("wire", "provider/internal/link", "provider/internal/outcome"),
	"provider/internal/bulk":          shared(object("wire", "internal/clock"), "provider/internal/"),
	"provider/internal/space":         shared(object("wire", "internal/clock"), "provider/internal/"),
	"provider/internal/congestion":    object("wire", "internal/clock", "provider/internal/turn"),
	"provider/internal/secure":        shared(object("wire", "internal/clock", "internal/aead"), "provider/internal/packet"),
	"provider/internal/shake":         object("wire"),
	"provider/sim": {
		ours:    []string{"provider", "wire", "internal/aead", "internal/clock", "internal/shaker", "internal/shaker/shakertest"},
		noStd:   []string{"net", "os", "syscall"},
		usedBy:  []string{"bench", "cmd/"},
		tests:   []string{"internal/tlshake"},
		noClock: true,
	},
	"internal/host": {
		ours:   []string{"xdp", "internal/udp", "internal/clock", "internal/genetlink"},
		theirs: []string{"github.com/vishvananda/netlink/...", "golang.org/x/sys/unix"},
	},
	// The parts of a datapath, from the bottom up.
	"internal/datapath/sleep":   {ours: []string{"internal/host", "internal/clock"}, theirs: []string{"golang.org/x/sys/unix"}, usedBy: []string{"internal/datapath", "internal/datapath/plan"}, tests: []string{"internal/udp"}},
	"internal/datapath/sharing": {ours: []string{"internal/host", "internal/ports", "internal/doorbell", "internal/udp", "provider", "wire"}, usedBy: []string{"internal/datapath", "internal/datapath/plan", "nd/ndhealth"}},
	"internal/datapath/follow":  {ours: []string{"internal/host", "internal/genetlink", "internal/clock", "provider"}, usedBy: []string{"internal/datapath"}},
	"internal/datapath/plan": {
		ours:   []string{"internal/datapath/sharing", "internal/datapath/sleep", "internal/host", "internal/broker", "internal/genetlink", "internal/udp", "provider", "xdp", "bpf", "wire"},
		theirs: []string{"golang.org/x/sys/unix"},
	},
	"internal/datapath": {
		ours:   []string{"internal/datapath/", "internal/host", "provider", "xdp", "internal/udp", "internal/rxring", "internal/icmp", "bpf", "wire", "internal/clock", "internal/broker", "internal/genetlink"},
		theirs: []string{"github.com/vishvananda/netlink/...", "golang.org/x/sys/unix"},
		tests:  []string{"internal/ports"},
	},
	"internal/memfault": {
		theirs: []string{}, noStd: []string{"net", "os", "syscall"}, usedBy: []string{"internal/verbs", "provider/internal/access"},
		tests: []string{"golang.org/x/sys/unix"},
	},
	"internal/hostkey": {ours: []string{"internal/user"}, usedBy: []string{"internal/verbs", "nd/ndhealth"}},
	"internal/repeat":  {}, "internal/inspect": {ours: []string{"internal/repeat", "internal/user"}, usedBy: []string{"nd", "nd/ndinspect"}},
	"internal/capture": {ours: []string{"provider", "wire", "internal/clock"}},
	"internal/verbs": {
		ours:   []string{"provider", "internal/datapath", "internal/datapath/plan", "internal/host", "internal/clock", "internal/capture", "internal/hostkey", "internal/memfault", "internal/hugepage", "internal/procmap", "internal/tlshake"},
		usedBy: []string{"nd", "nd/ndk", "capi"},
	},
	"capi": { // a sibling of nd for C
		ours:   []string{"provider", "internal/verbs", "internal/buildinfo", "internal/stackroom"},
		theirs: []string{"golang.org/x/sys/unix"},
	},
	"capi/test": {tests: []string{"nd"}}, // tests only, of the built library
	"nd": {
		ours:  []string{"provider", "internal/datapath", "internal/datapath/plan", "internal/host", "internal/verbs", "internal/capture", "internal/inspect", "internal/buildinfo"},
		tests: []string{"wire"},
	},
	"nd/ndk": { // a sibling of nd on the same engine, not a wrapper: only its tests bring the two together
		ours:  []string{"provider", "internal/verbs"},
		tests: []string{"nd", "internal/datapath", "internal/datapath/plan"},
	},
	"nd/ndnet":     {ours: []string{"nd", "internal/doorbell"}, tests: []string{"internal/netlab/impair"}},
	"nd/ndmetrics": {ours: []string{"nd", "internal/buildinfo"}, theirs: []string{"github.com/prometheus/client_golang/..."}}, // a separate module: only its users require Prometheus
	"nd/ndinspect": {ours: []string{"nd", "nd/ndcapture", "internal/inspect", "internal/user"}},
	"nd/ndhealth": { // examines the layers below nd, so that nd and the commands need not import them
		ours:   []string{"nd", "nd/ndinspect", "internal/datapath", "internal/datapath/plan", "internal/datapath/sharing", "internal/host", "internal/genetlink", "internal/hostkey", "xdp", "bpf"},
		theirs: []string{"github.com/vishvananda/netlink/...", "golang.org/x/sys/unix"},
	},
	"nd/ndtls":     {usedBy: []string{"bench/apps", "cmd/", "examples/"}}, // of crypto/tls alone
	"nd/ndcapture": {ours: []string{"nd", "internal/aead", "internal/repeat", "wire"}, tests: []string{"provider", "provider/sim"}},
	"examples":     {}, // tests only
	"examples/":    {ours: []string{"nd", "nd/ndnet", "nd/ndtls"}, usedBy: []string{}},
	"bench": { // bench measures the limit of the layers below nd as well, hence xdp and bpf
		ours:   []string{"nd", "nd/ndnet", "nd/ndcapture", "xdp", "bpf", "internal/netlab", "internal/clock", "internal/buildinfo", "provider/sim"},
		theirs: []string{"golang.org/x/sys/unix", "github.com/HdrHistogram/hdrhistogram-go"},
		tests:  []string{"nd/ndmetrics", "github.com/asavie/xdp/..."}, // tests compare with this baseline; it is not part of the product
	},
	"bench/apps": { // separate from bench because of gRPC: only ndperf links it; its tests run the test suites of other projects on ndnet
		ours: []string{"bench", "nd", "nd/ndnet"}, theirs: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."}, tests: []string{"golang.org/x/net/nettest", "nd/ndtls"}, usedBy: []string{"cmd/ndperf"},
	},
	"bench/page": {ours: []string{"bench"}, usedBy: []string{"cmd/"}},
	"bench/lab":  {ours: []string{"nd"}, tests: []string{"wire"}}, // tests only
	"cmd/ndbroker": { // the only command with the privileged half of a datapath; its tests use the other half
		ours:   []string{"internal/broker", "internal/datapath", "internal/datapath/plan", "internal/host", "cmd/internal/cli"},
		theirs: []string{"github.com/spf13/cobra", "golang.org/x/sys/unix"},
		tests:  []string{"nd", "nd/ndk"},
	},
	"cmd/": {
		ours: []string{"nd", "nd/ndcapture", "nd/ndhealth", "nd/ndinspect", "bench", "bench/apps", "bench/page", "internal/buildinfo", "cmd/internal/cli", "internal/netlab", "provider/sim"},
		theirs: []string{
			"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "github.com/jedib0t/go-pretty/v6/...",
			"golang.org/x/sys/unix", "golang.org/x/term",
		},
	},
}
