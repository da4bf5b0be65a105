package nd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ndxdp/ndxdp/internal/verbs"
	"github.com/ndxdp/ndxdp/provider"
)

// lines is a writer that sends each line to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestFlightLogOfALostConnection: if a peer's link goes down, its connection is lost, and the flight log has the cause.
func TestFlightLogOfALostConnection(t *testing.T) {
	t.Parallel()
	log := make(lines, 16)
	r := newRigOf(t, 1500, AdapterConfig{FlightLog: log, engine: provider.Config{DeadPeer: 1500 * time.Millisecond}})
	client, server := newEnd(t, r.a, 1<<16), newEnd(t, r.b, 1<<16)
	r.join(t, client, server)
	r.setLink(t, r.pair.B, false)
	must(t, client.qp.Send(1, []SGE{client.mr.SGE(0, 100)}, 0))
	select {
	case text := <-log:
		for _, want := range []string{"lost (I/O timeout)", "-> open", "lost: I/O timeout"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	case <-time.After(patience):
		t.Fatal("nothing was written")
	}
}

// Events before the end of an adapter are logged before the cause of its end, because programs often close an adapter after a loss.
func TestFlightLogKeepsWhatCameBeforeTheEnd(t *testing.T) {
	var log bytes.Buffer
	onLost, write := verbs.LogFlights(&log)
	for range verbs.FlightBacklog {
		onLost(provider.FlightRecord{ConnID: 1})
	}
	var record bytes.Buffer
	r := provider.FlightRecord{ConnID: 1}
	_, err := r.WriteTo(&record)
	must(t, err)
	life, end := context.WithCancel(t.Context())
	end()
	write(life, func() error { return errors.New("gone") })
	if want := strings.Repeat(record.String(), verbs.FlightBacklog) + "the adapter ended: gone\n"; log.String() != want {
		t.Errorf("the log is %q, want %q", log.String(), want)
	}
}
