package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ndxdp/ndxdp/bpf"
	"github.com/ndxdp/ndxdp/internal/broker"
	"github.com/ndxdp/ndxdp/wire"
	"github.com/ndxdp/ndxdp/xdp"
)

// brokerPatience is how long a broker that nobody named may take for a lease. Loading the program and binding the sockets takes some ten milliseconds.
const brokerPatience = time.Second

// openBehind opens what is left to auto when AF_XDP cannot be had directly, because of why: a lease of the broker at the usual place, else plain sockets.
func openBehind(cfg Config, c *cohabitation, why string) (Device, error) {
	d, err := openUnbidden(cfg, c)
	if err == nil {
		d.info.Reason += fmt.Sprintf("; the broker at %s was asked because %s", d.lease.Path, why)
		return d, nil
	}
	if !inherent(err) {
		why += "; " + strings.ReplaceAll(err.Error(), "\n", ", ")
	}
	var rings *broker.RingsError
	if errors.As(err, &rings) {
		return openBeside(cfg, c, why, cfg.dialUnbidden)
	}
	return openBeside(cfg, c, why, nil)
}

// dialUnbidden asks the broker at the usual place.
func (cfg *Config) dialUnbidden(name string, r broker.Request) (*broker.Lease, error) {
	return broker.DialUnbidden(broker.At(cmp.Or(cfg.brokers, broker.Directory), name), r, cmp.Or(cfg.patience, brokerPatience))
}

// brokerHelps says that AF_XDP failed with err for something that a broker may have.
func brokerHelps(err error) bool {
	for _, its := range []error{xdp.ErrPermission, xdp.ErrLockedMemory, xdp.ErrQueueBusy, bpf.ErrForbidden, bpf.ErrHeld} {
		if errors.Is(err, its) {
			return true
		}
	}
	return false
}

// inherent says that err is about the interface, which nobody can open for AF_XDP now.
func inherent(err error) bool {
	var link *notEthernetError
	var down *downError
	var silent *notSeenError
	return errors.As(err, &link) || errors.As(err, &down) || errors.As(err, &silent)
}

// openUnbidden asks a broker that nobody named. A later adapter asks for a UDP port of its own, as it has one over plain sockets.
func openUnbidden(cfg Config, c *cohabitation) (*Datapath, error) {
	if !c.first {
		cfg.UDPPort = wire.SourcePort(rand.Uint64())
	}
	return openLease(cfg, c, func(name string, r broker.Request) (*broker.Lease, error) {
		lease, err := cfg.dialUnbidden(name, r)
		c.asked = !errors.Is(err, broker.ErrNone)
		return lease, err
	})
}

// UsualBroker says what auto finds in place of AF_XDP at the usual place of an interface's broker, as the tail of a reason.
func UsualBroker(name string) string { return usualBroker(broker.Directory, name) }

func usualBroker(directory, name string) string {
	path := broker.At(directory, name)
	if err := broker.Believed(path); err != nil {
		return fmt.Sprintf("; %v", err)
	}
	return fmt.Sprintf("; the broker at %s is asked for a lease of AF_XDP first", path)
}
