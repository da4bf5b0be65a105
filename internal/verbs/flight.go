package verbs

import (
	"context"
	"fmt"
	"io"

	"github.com/ndxdp/ndxdp/provider"
)

// FlightBacklog is how many records wait for a slow writer; further records are dropped.
const FlightBacklog = 8

// LogFlights returns a function that takes records from the engines, and a function that writes them to w until the adapter's life
// ends. The engines never wait for the writer.
func LogFlights(w io.Writer) (onLost func(provider.FlightRecord), write func(life context.Context, cause func() error)) {
	records := make(chan provider.FlightRecord, FlightBacklog)
	onLost = func(r provider.FlightRecord) {
		select {
		case records <- r:
		default:
		}
	}
	write = func(life context.Context, cause func() error) {
		for {
			select {
			case r := <-records:
				_, _ = r.WriteTo(w) // a failed write has no caller to report to
			case <-life.Done():
				for len(records) > 0 { // connections that were lost before the end
					r := <-records
					_, _ = r.WriteTo(w)
				}
				if err := cause(); err != nil {
					_, _ = fmt.Fprintf(w, "the adapter ended: %v\n", err)
				}
				return
			}
		}
	}
	return onLost, write
}
