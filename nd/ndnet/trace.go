package ndnet

import (
	"context"
	"net"
	"net/http/httptrace"
	"net/netip"
	"reflect"
)

// attempt connects to one address, and calls the hooks of net/http/httptrace as net.Dialer does. network is the name that the caller of
// Dial gave.
func attempt(ctx context.Context, network string, to netip.AddrPort, dial func(context.Context, netip.AddrPort) (*Conn, error)) (_ net.Conn, err error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(network, to.String())
	}
	c, err := dial(ctx, to)
	if err != nil {
		err = &net.OpError{Op: "dial", Net: "nd", Addr: net.TCPAddrFromAddrPort(to), Err: meaning(err)}
	}
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(network, to.String(), err)
	}
	if err != nil {
		return nil, err
	}
	return secured(c), nil
}

// resolving returns the context for looking up a name. It lacks the hooks for connections, because they would report the resolver's own
// connections to its servers.
func resolving(ctx context.Context) context.Context {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return ctx
	}
	return httptrace.WithClientTrace(untraced{ctx}, &httptrace.ClientTrace{DNSStart: trace.DNSStart, DNSDone: trace.DNSDone})
}

// untraced is a context without its hooks. Packages net and net/http/httptrace each keep one value, under keys that no other package can
// name.
type untraced struct{ context.Context }

func (u untraced) Value(key any) any {
	switch reflect.TypeOf(key).PkgPath() {
	case "internal/nettrace", "net/http/httptrace":
		return nil
	}
	return u.Context.Value(key)
}
