package apps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ndxdp/ndxdp/bench"
)

// serveHTTP answers a request for /NUMBER with a body that contains the number.
func serveHTTP(l net.Listener, s bench.AppSpec, _ time.Time) (stop func() error) {
	server := &http.Server{ReadTimeout: s.Budget(), WriteTimeout: s.Budget(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, s.Size)
		copy(body, r.URL.Path)
		_, _ = w.Write(body) // a client that has gone sends no further requests
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		err := server.Close()
		if why := <-served; !errors.Is(why, http.ErrServerClosed) {
			err = errors.Join(err, why)
		}
		return err
	}
}

// connectHTTP shares one http.Transport among the callers, as programs do.
func connectHTTP(ctx context.Context, t *transport, s bench.AppSpec, _ time.Time) (*client, error) {
	shared := &http.Transport{
		DialContext: t.dial, MaxConnsPerHost: s.Connections, MaxIdleConnsPerHost: s.Connections, DisableCompression: true,
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &client{close: func() { cancel(); shared.CloseIdleConnections() }}
	httpClient := &http.Client{Transport: shared, Timeout: s.Budget()}
	for i := range s.Connections {
		k := 0
		c.calls = append(c.calls, func() error {
			k++
			return get(ctx, httpClient, t.peer.String(), fmt.Sprintf("/%d.%d", i, k), s.Size)
		})
	}
	return c, nil
}

// get makes one request and checks the answer.
func get(ctx context.Context, c *http.Client, host, path string, size int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	want := make([]byte, size)
	copy(want, path)
	if !bytes.Equal(body, want) {
		return fmt.Errorf("%w: %s was answered %q", errWrong, path, body)
	}
	return nil
}
