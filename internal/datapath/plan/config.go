package plan

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/internal/datapath/sleep"
)

// Config says what to open.
type Config struct {
	Address  netip.Addr // a local address; selects its interface, or the interface of its zone
	UDPPort  uint16
	Datapath Datapath
	Arena    int // bytes of memory for Alloc; pinned for the life of the datapath
	// Broker is the socket of a broker that opens AF_XDP for us, because we may not; empty to open it here.
	Broker string
	// Brokers is the directory of the brokers that are asked unbidden, and patience how long one of them may take; set by tests, else broker.Directory and
	// brokerPatience.
	Brokers  string
	Patience time.Duration
	// Spin is how long an application that is to sleep looks for packets first, at the most; 0 is DefaultSpin, and a negative one never.
	Spin time.Duration
	// Bulk says whether the interface gets a bulk lane.
	Bulk Bulk

	Zone string // IPv6 zone of Address; SplitZone moves it here, because an open device has Address without a zone
}

// SplitZone moves the zone of Address to Zone.
func (c *Config) SplitZone() { c.Zone, c.Address = c.Address.Zone(), c.Address.WithZone("") }

// LongestSpin returns Spin with its default applied: the longest time to look for packets before a sleep, zero for none.
func (c *Config) LongestSpin() time.Duration {
	if c.Spin != 0 {
		return max(c.Spin, 0)
	}
	return sleep.DefaultSpin
}

// UsualBroker is where the broker of an interface listens that nobody names.
func (cfg *Config) UsualBroker(name string) string {
	return broker.At(cmp.Or(cfg.Brokers, broker.Directory), name)
}
