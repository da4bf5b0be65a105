package datapath

import (
	"cmp"
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/internal/broker"
)

// brokerPatience is how long a broker that nobody named may take for a lease. Loading the program and binding the sockets takes some ten milliseconds.
const brokerPatience = time.Second

// usualBroker is where the broker of an interface listens that nobody names.
func (cfg *Config) usualBroker(name string) string {
	return broker.At(cmp.Or(cfg.brokers, broker.Directory), name)
}

// dial asks the named broker, or the broker at the usual path.
func (b *base) dial(r broker.Request) (*broker.Lease, error) {
	if b.cfg.Broker != "" {
		return broker.Dial(b.cfg.Broker, r)
	}
	lease, err := broker.DialUnbidden(b.cfg.usualBroker(b.nic.Name), r, cmp.Or(b.cfg.patience, brokerPatience))
	b.shared.Asked = !errors.Is(err, broker.ErrNone)
	return lease, err
}
