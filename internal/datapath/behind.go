package datapath

import (
	"cmp"
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/internal/broker"
)

// brokerPatience is how long a broker that nobody named may take for a lease. Loading the program and binding the sockets takes some ten milliseconds.
const brokerPatience = time.Second

// dial asks the named broker, or the broker at the usual path.
func (b *base) dial(r broker.Request) (*broker.Lease, error) {
	if b.cfg.Broker != "" {
		return broker.Dial(b.cfg.Broker, r)
	}
	lease, err := broker.DialUnbidden(b.cfg.UsualBroker(b.nic.Name), r, cmp.Or(b.cfg.Patience, brokerPatience))
	b.shared.Asked = !errors.Is(err, broker.ErrNone)
	return lease, err
}
