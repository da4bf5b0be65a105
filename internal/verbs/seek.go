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
	if !a.beginSeek() {
		return nil
	}
	err := a.reach(ctx, peer.WithZone(""))
	a.seeks.Done()
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

// beginSeek lets Close wait for a search, whose device it closes. It fails after Close has ended all attempts.
func (a *Adapter) beginSeek() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sought {
		return false
	}
	a.seeks.Add(1)
	return true
}

// endSeeks waits for the searches of attempts that are over, and lets no other begin.
func (a *Adapter) endSeeks() {
	a.mu.Lock()
	a.sought = true
	a.mu.Unlock()
	a.seeks.Wait()
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
