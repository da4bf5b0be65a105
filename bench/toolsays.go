package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseIperf3 parses the receiver's counts. Processor time is in percent of one core.
func parseIperf3(out []byte, s Spec, b *Baseline) error {
	var said struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes   uint64  `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return err
	}
	if said.Error != "" {
		return errors.New(said.Error)
	}
	r := said.End.Received
	b.Bytes, b.Seconds, b.Ops = r.Bytes, r.Seconds, r.Bytes/uint64(s.Size)
	if b.Ops == 0 {
		return errors.New("the tool transferred less than one message")
	}
	b.CPUUS = (said.End.CPU.Host + said.End.CPU.Remote) / 100 * r.Seconds * 1e6 / float64(b.Ops)
	return nil
}

// parseSockperf parses the distribution of half round trips.
func parseSockperf(out []byte, s Spec, b *Baseline) error {
	l := &Latency{}
	for line := range strings.Lines(string(out)) {
		var ops uint64
		var took float64
		if _, rest, ok := strings.Cut(line, "[Valid Duration] RunTime="); ok {
			if _, err := fmt.Sscanf(rest, "%f sec; SentMessages=%d;", &took, &ops); err != nil {
				return err
			}
			b.Ops, b.Bytes, b.Seconds = ops, ops*uint64(s.Size), took
		}
		_, rest, ok := strings.Cut(line, "---> ")
		name, value, both := strings.Cut(rest, "=")
		if !ok || !both {
			continue
		}
		us, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return err
		}
		to := map[string]*float64{
			"<MAX> observation": &l.Max, "<MIN> observation": &l.Min, "percentile 99.900": &l.P999, "percentile 99.000": &l.P99,
			"percentile 90.000": &l.P90, "percentile 50.000": &l.P50,
		}[strings.TrimSpace(name)]
		if to != nil {
			*to = us
		}
	}
	if b.Ops == 0 || l.P50 == 0 {
		return errors.New("the output has no number of messages, or no median")
	}
	b.LatIs, b.LatUS = HalfRoundTrip, l
	return nil
}

// parseUCX parses the last line: operations; median, mean and overall mean in µs; MiB per second and messages per second, each of
// the last part and overall. It has only the median of a distribution.
func parseUCX(out []byte, s Spec, b *Baseline) error {
	line := strings.Fields(lastLine(bytes.TrimPrefix(out, []byte("\n"))))
	if len(line) != 8 {
		return fmt.Errorf("the last line of the output has %d figures, want 8", len(line))
	}
	var f [8]float64
	for i, text := range line {
		var err error
		if f[i], err = strconv.ParseFloat(text, 64); err != nil {
			return err
		}
	}
	ops, median, mean := f[0], f[1], f[3]
	if ops <= 0 || median <= 0 || mean <= 0 {
		return errors.New("operations, median and mean in the output must be positive")
	}
	b.Ops, b.Bytes, b.Seconds = uint64(ops), uint64(ops)*uint64(s.Size), ops*mean/1e6
	if s.Test.IsLatency() {
		b.Seconds *= 2 // an operation is a round trip; the times are one way
		b.LatIs, b.LatUS = HalfRoundTrip, &Latency{Min: median, P50: median, P90: median, P99: median, P999: median, Max: median}
		b.Note = "only the median is known"
	}
	return nil
}

// parseFabric parses the last line: bytes, messages sent and answered, total bytes, time, MB per second, µs per message one way,
// and millions of messages per second. It has only the mean of a distribution.
func parseFabric(out []byte, s Spec, b *Baseline) error {
	f := strings.Fields(lastLine(out))
	if len(f) != 8 {
		return fmt.Errorf("the last line of the output has %d figures, want 8", len(f))
	}
	mean, err := strconv.ParseFloat(f[6], 64)
	if err != nil {
		return err
	}
	if mean <= 0 {
		return errors.New("the time in the output must be positive")
	}
	b.Ops, b.Bytes, b.Seconds = pings, pings*uint64(s.Size), 2*pings*mean/1e6
	b.LatIs, b.LatUS = HalfRoundTrip, &Latency{Min: mean, P50: mean, P90: mean, P99: mean, P999: mean, Max: mean}
	b.Note = "only the mean is known"
	return nil
}
