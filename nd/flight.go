package nd

import (
	"context"
	"fmt"
	"io"

	"github.com/ndxdp/ndxdp/provider"
)

// flightBacklog is how many records wait for a slow writer; those that find no room are missing.
const flightBacklog = 8

// logFlights returns what takes records from the engines, and what writes them to w until the adapter's life ends. The engines never
// wait for the writer.
func logFlights(w io.Writer) (onLost func(provider.FlightRecord), write func(life context.Context, cause func() error)) {
	records := make(chan provider.FlightRecord, flightBacklog)
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
				_, _ = r.WriteTo(w) // there is nobody to tell
			case <-life.Done():
				for len(records) > 0 { // of connections that were lost before
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
