package ndnet

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"
)

// defaultFallback is how long an attempt may take before the next address is tried concurrently, as in package net (RFC 8305 §5).
const defaultFallback = 300 * time.Millisecond

// maxTargets bounds how many addresses of a name are tried.
const maxTargets = 16

// checkName fails for names of other networks, which callers may pass to a dialer for all networks.
func checkName(network string) error {
	switch network {
	case "tcp", "tcp4", "tcp6", "nd", "nd4", "nd6":
		return nil
	}
	return net.UnknownNetworkError(network)
}

// family returns the address family that a network's name selects: 4, 6, or 0 for either.
func family(network string) byte {
	if s := strings.TrimRight(network, "46"); len(s)+1 == len(network) {
		return network[len(s)]
	}
	return 0
}

// isUnspecified reports whether a host is empty or an unspecified address.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

func fits(family byte, a netip.Addr) bool {
	return family == 0 || a.Unmap().Is4() == (family == '4')
}

// resolve turns "host:port" into addresses, alternating between the families, IPv6 first. Ports may be names. An empty or unspecified host
// is this machine, as in package net.
func resolve(ctx context.Context, r *net.Resolver, network, address string) (all []netip.AddrPort, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = net.DefaultResolver
	}
	ctx = resolving(ctx)
	port, err := r.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" && family(network) == '6', ip == netip.IPv6Unspecified():
		found = []netip.Addr{netip.IPv6Loopback()}
	case isUnspecified(host):
		found = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case err == nil:
		found = []netip.Addr{ip}
	default:
		if found, err = r.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	var six, four []netip.AddrPort
	for _, a := range found {
		switch at := netip.AddrPortFrom(a.Unmap(), uint16(port)); {
		case !fits(family(network), a):
		case a.Unmap().Is4():
			four = append(four, at)
		default:
			six = append(six, at)
		}
	}
	for len(six)+len(four) > 0 {
		for _, l := range []*[]netip.AddrPort{&six, &four} {
			if len(*l) > 0 {
				all = append(all, (*l)[0])
				*l = (*l)[1:]
			}
		}
	}
	if len(all) == 0 {
		return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
	}
	return all[:min(len(all), maxTargets)], nil
}

// race tries the targets in order and returns the first connection. The next target starts when the previous ones have failed or have taken
// delay. Connections that come too late are closed. errs are the errors of the targets, in their order.
func race[T any](ctx context.Context, delay time.Duration, targets []T, dial func(context.Context, T) (net.Conn, error)) (_ net.Conn, errs []error) {
	if len(targets) == 1 { // no goroutine has to wait for another one
		conn, err := dial(ctx, targets[0])
		if err != nil {
			return nil, []error{err}
		}
		return conn, nil
	}
	type attempt struct {
		conn net.Conn
		err  error
		at   int
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan attempt)
	began, pending := 0, 0
	begin := func() {
		at := began
		began++
		pending++
		go func() {
			conn, err := dial(ctx, targets[at])
			done <- attempt{conn, err, at}
		}()
	}
	defer func() {
		go func() { // closes connections that come too late
			for range pending {
				if a := <-done; a.err == nil {
					_ = a.conn.Close()
				}
			}
		}()
	}()
	errs = make([]error, len(targets))
	begin()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if began < len(targets) {
				begin()
				timer.Reset(delay)
			}
		case a := <-done:
			pending--
			if a.err == nil {
				return a.conn, nil
			}
			errs[a.at] = a.err
			if began < len(targets) {
				begin()
				timer.Reset(delay)
			} else if pending == 0 {
				return nil, errs
			}
		}
	}
}
