package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// proxyCases have a reverse proxy in the server's process. The web server behind it runs in the client's process, so that both hops
// cross the link.
func proxyCases() []program {
	of := []webCase{
		{name: "proxy-64B-1", callers: 1, call: (*webClient).echo},
		{name: "proxy-64B-16", callers: 16, call: (*webClient).echo},
		{name: "proxy-64KiB-16", callers: 16, call: (*webClient).medium},
		{name: "proxy-64MiB-1", callers: 1, file: largeAnswer, call: (*webClient).largeFile},
	}
	out := make([]program, len(of))
	for i, w := range of {
		out[i] = program{
			name:    w.name,
			serve:   func(n *network) (*service, error) { return serveProxy(n, w) },
			connect: func(_ context.Context, n *network) (*load, error) { return connectBehind(n, w) },
		}
	}
	return out
}

func serveProxy(n *network, w webCase) (*service, error) {
	l, err := n.listen()
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: n.there()})
	proxy.Transport = &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: w.callers, DisableCompression: true}
	return serveHTTP(l, proxy, w), nil
}

// connectBehind runs the web server behind the proxy, and sends requests to the proxy.
func connectBehind(n *network, w webCase) (*load, error) {
	origin, err := serveWeb(n, w)
	if err != nil {
		return nil, err
	}
	l, err := connectWeb(n, w)
	if err != nil {
		return nil, errors.Join(err, origin.stop())
	}
	ask := l.close
	l.close = func() error { return errors.Join(ask(), origin.stop()) }
	return l, nil
}
