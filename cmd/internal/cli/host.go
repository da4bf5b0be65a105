package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// lookupLimit bounds the time to resolve a name.
const lookupLimit = 10 * time.Second

// ResolveHost returns the address of an IP address or a host name. If a name has several addresses, it returns the first, which the
// resolver prefers. If the text is neither, ok is false and the resolver is not called.
func ResolveHost(ctx context.Context, text string) (a netip.Addr, ok bool, err error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a, true, nil
	}
	if !hostName(text) {
		return netip.Addr{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", text)
	if err != nil {
		return netip.Addr{}, true, fmt.Errorf("no address of %q: %w", text, err)
	}
	return found[0].Unmap(), true, nil
}

// ResolveAddrPort is ResolveHost of HOST:PORT.
func ResolveAddrPort(ctx context.Context, text string) (at netip.AddrPort, ok bool, err error) {
	host, service, err := net.SplitHostPort(text)
	port, wrong := strconv.ParseUint(service, 10, 16)
	if err != nil || wrong != nil {
		return netip.AddrPort{}, false, nil
	}
	a, ok, err := ResolveHost(ctx, host)
	return netip.AddrPortFrom(a, uint16(port)), ok, err
}

// hostName reports whether text is a valid host name: letters, digits, hyphens and dots (and underscores, which occur), but not a
// number.
func hostName(text string) bool {
	letters := false
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters = true
		case r >= '0' && r <= '9', r == '_':
		case r == '-' || r == '.':
			if text[0] == byte(r) {
				return false
			}
		default:
			return false
		}
	}
	return letters && len(text) <= 253 && !strings.Contains(text, "..")
}
