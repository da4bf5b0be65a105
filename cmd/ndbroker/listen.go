package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/ndxdp/ndxdp/internal/broker"
)

// listen returns an inherited listener, or else listens at f.socket, which defaults to the usual path.
func (f *flags) listen() (*net.UnixListener, error) {
	inherited, err := broker.Inherited()
	if err != nil {
		return nil, err
	}
	if inherited == nil {
		if f.socket == "" {
			f.socket = broker.At(broker.Directory, f.terms.Interface)
		}
		return broker.Listen(f.socket)
	}
	at := inherited.Addr().String()
	if f.socket != "" && f.socket != at {
		return nil, errors.Join(fmt.Errorf("--socket %s: the service manager listens at %s: leave the flag out", f.socket, at), inherited.Close())
	}
	f.socket = at
	return inherited, nil
}
