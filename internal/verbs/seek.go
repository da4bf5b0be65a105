package verbs

import (
	"context"
	"errors"
	"net/netip"

	"github.com/ndxdp/ndxdp/internal/datapath"
	"github.com/ndxdp/ndxdp/provider"
)

// Seek goes on with what Connector.Begin began: it finds the way to the peer, however long that takes, and sends the request.
// Without a way it ends the attempt and returns why there is none. When ctx ends it leaves the attempt to the caller that ended it.
func (a *Adapter) Seek(ctx context.Context, k *provider.Connector, peer netip.Addr) error {
	err := a.reach(ctx, peer)
	if ctx.Err() != nil {
		return nil
	}
	k.Own(func(*provider.Engine) {
		o := unreachable(err)
		if err == nil {
			o = request(k)
		}
		if o != provider.OutcomeSuccess {
			k.NotReached(o)
		}
	})
	return err
}

// request sends the request of an attempt. Over plain sockets another program may have the source port: the next try draws
// another one.
func request(k *provider.Connector) (o provider.Outcome) {
	o = provider.OutcomeHostUnreachable
	for try := 0; try < SourcePorts && o == provider.OutcomeHostUnreachable; try++ {
		o = k.Reached()
	}
	return o
}

// unreachable is the outcome of an attempt that found no way to the peer.
func unreachable(err error) provider.Outcome {
	switch {
	case errors.Is(err, datapath.ErrNoRoute):
		return provider.OutcomeNetworkUnreachable
	case errors.Is(err, datapath.ErrNotOneHost):
		return provider.OutcomeBadNetworkName
	}
	return provider.OutcomeHostUnreachable
}
