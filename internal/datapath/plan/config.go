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
	Address  netip.Addr // a local address; it selects its interface, or the interface of its zone
	UDPPort  uint16
	Datapath Datapath
	Arena    int // bytes of memory for Alloc; pinned for the life of the datapath
	// Broker is the path of the socket of a broker that opens AF_XDP for this process. If it is empty, this process opens AF_XDP itself.
	Broker string
	// Brokers is the directory of the brokers that are asked although the program named none, and Patience bounds the wait for one of
	// them. Tests set them; the defaults are broker.Directory and brokerPatience.
	Brokers  string
	Patience time.Duration
	// Spin bounds the time that a call polls for packets before it sleeps. 0 is DefaultSpin, and a negative value is none.
	Spin time.Duration
	// Bulk says whether the interface gets a bulk path.
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

// UsualBroker returns the path where the broker of an interface listens by default.
func (cfg *Config) UsualBroker(name string) string {
	return broker.At(cmp.Or(cfg.Brokers, broker.Directory), name)
}
