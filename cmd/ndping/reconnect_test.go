package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/netlab/netlabtest"
	"github.com/ndxdp/ndxdp/internal/testhelp"
)

// said is output that can be read while it is written.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A ping with --reconnect waits for its peer, continues when the peer was restarted, and reports lost messages. Its peer reports in plain
// words that it left.
func TestPingReconnects(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := netlabtest.Loopback()
	both := []string{addr[1].String() + ":7000", "--udp-port", fmt.Sprint(netlabtest.FreePort(t)), "--datapath", "udp"}
	asking, leave := context.WithCancel(ctx)
	defer leave()
	var client said
	asked := make(chan error, 1)
	go func() {
		asked <- run(asking, here, &client, append(both, "--from", addr[0].String(), "--reconnect", "-i", "0.005")...)
	}()
	// serve answers until the client has printed the expected text.
	serve := func(server *said, until func(text string) bool, then func()) {
		serving, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- run(serving, here, server, append([]string{"-l"}, both...)...) }()
		testhelp.Eventually(t, "answers", func() bool { return until(client.String()) })
		then()
		stop()
		must(t, <-ended)
	}
	testhelp.Eventually(t, "it waits for its peer", func() bool { return client.String() != "" })
	const before = 20 // messages of the first connection and more, because the last connection needs fewer packets
	serve(&said{}, func(text string) bool { return strings.Contains(text, fmt.Sprintf("message %d: ", before)) }, func() {})
	var server said
	serve(&server, func(text string) bool {
		_, since, again := strings.Cut(strings.Replace(text, "connected to", "", 1), "connected to")
		return again && strings.Contains(since, "µs")
	}, func() {
		leave()
		must(t, <-asked)
		testhelp.Eventually(t, "the server says that its peer left", func() bool { return strings.Contains(server.String(), "left after") })
	})
	if strings.Contains(server.String(), "<nil>") {
		t.Errorf("the server says %s", &server)
	}
	wantSaid(t, client.String(), "[ND_CONNECTION_REFUSED]", "packets out")
	last := client.String()[strings.LastIndex(strings.TrimSpace(client.String()), "\n")+1:]
	var out, in, resent int
	if _, err := fmt.Sscanf(last, "%d packets out, %d in, %d sent again", &out, &in, &resent); err != nil || out < before || in < before {
		t.Errorf("%d messages were answered before the last connection, and the last line is %q (%v)", before, last, err)
	}
}

// Times are seconds, as for ping, or durations with a unit.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"0.2": 200 * time.Millisecond, "5ms": 5 * time.Millisecond, "2": 2 * time.Second, "0": 0, "1m": time.Minute} {
		var got time.Duration
		if err := (seconds{&got}).Set(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "-1s", "NaN", "1e300", "Inf"} {
		if err := run(t.Context(), here, io.Discard, "127.0.0.1:1", "-i", text); err == nil || errors.Is(err, errSilent) || !strings.Contains(err.Error(), "it is not a duration") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
