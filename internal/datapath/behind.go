package datapath

import (
	"cmp"
	"errors"
	"time"

	"github.com/ndxdp/ndxdp/internal/broker"
)

// brokerPatience bounds the wait for a lease from a broker that the program did not name. Loading the program and binding the sockets
// takes some ten milliseconds.
const brokerPatience = time.Second

// dial requests a lease from the named broker, or from the broker at the usual path.
func (b *base) dial(r broker.Request) (*broker.Lease, error) {
	if b.cfg.Broker != "" {
		return broker.Dial(b.cfg.Broker, r)
	}
	lease, err := broker.DialUnbidden(b.cfg.UsualBroker(b.nic.Name), r, cmp.Or(b.cfg.Patience, brokerPatience))
	b.shared.Asked = !errors.Is(err, broker.ErrNone)
	return lease, err
}
