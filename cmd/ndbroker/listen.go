package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/ndxdp/ndxdp/internal/broker"
)

// listen returns the listener that was inherited, and else makes one at f.socket, which is the usual place unless another one was named.
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
