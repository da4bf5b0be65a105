package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// RealSide is the result of both processes of a real program over one transport.
type RealSide struct {
	Ops       uint64        `json:"ops,omitempty"`     // verified operations; zero for idle connections
	Seconds   float64       `json:"seconds,omitempty"` // measured time
	P50US     float64       `json:"p50_us,omitempty"`  // of a whole operation
	P99US     float64       `json:"p99_us,omitempty"`
	ClientCPU time.Duration `json:"client_cpu"` // processor time of the process during the measurement, in nanoseconds
	ServerCPU time.Duration `json:"server_cpu"`

	// Of idle connections: the number opened per second, and the bytes of heap and stacks of each.
	Opened      float64 `json:"opened_per_second,omitempty"`
	ClientBytes float64 `json:"client_bytes_each,omitempty"`
	ServerBytes float64 `json:"server_bytes_each,omitempty"`
}

// PerSecond returns the rate of operations.
func (s RealSide) PerSecond() float64 { return over(float64(s.Ops), s.Seconds) }

// CPUUS returns the processor time of both processes for an operation, in microseconds.
func (s RealSide) CPUUS() float64 {
	return over((s.ClientCPU+s.ServerCPU).Seconds()*1e6, float64(s.Ops))
}

// ClientShare returns the client's processor time in percent of a core.
func (s RealSide) ClientShare() float64 { return over(100*s.ClientCPU.Seconds(), s.Seconds) }

// ServerShare returns the server's processor time in percent of a core.
func (s RealSide) ServerShare() float64 { return over(100*s.ServerCPU.Seconds(), s.Seconds) }

// over returns a quotient, or 0 if the divisor is 0.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// RealRound is the result of a case over both transports, measured at the same time.
type RealRound struct {
	TCP RealSide `json:"tcp"`
	ND  RealSide `json:"nd"`
}

// rate returns ND's rate divided by TCP's: of operations, or of opened connections if there are no operations.
func (r RealRound) rate() float64 {
	if r.TCP.Ops == 0 {
		return over(r.ND.Opened, r.TCP.Opened)
	}
	return over(r.ND.PerSecond(), r.TCP.PerSecond())
}

// cpu returns ND's processor time per operation divided by TCP's.
func (r RealRound) cpu() float64 { return over(r.ND.CPUUS(), r.TCP.CPUUS()) }

// RealResult is the result of a real program at one MTU: the round with the median ratio of rates, and the medians of all rounds.
type RealResult struct {
	Case     string `json:"case"`
	MTU      int    `json:"mtu"`
	Idle     int    `json:"idle_connections,omitempty"` // for a case without operations
	Datapath string `json:"datapath"`                   // of ND
	RealRound
	Rate   float64     `json:"rate_ratio"` // ND / TCP
	CPU    float64     `json:"cpu_ratio,omitempty"`
	Rounds []RealRound `json:"rounds"`
}

// AddReal adds a round to the result of the same case, and updates the medians.
func (r *Report) AddReal(x RealResult, round RealRound) {
	i := slices.IndexFunc(r.Real, func(y RealResult) bool { return y.Case == x.Case && y.MTU == x.MTU })
	if i < 0 {
		i = len(r.Real)
		r.Real = append(r.Real, x)
	}
	at := &r.Real[i]
	at.Rounds = append(at.Rounds, round)
	sorted := slices.SortedFunc(slices.Values(at.Rounds), func(a, b RealRound) int { return cmp.Compare(a.rate(), b.rate()) })
	at.RealRound = sorted[(len(sorted)-1)/2]
	var rates, cpus []float64
	for _, round := range at.Rounds {
		rates, cpus = append(rates, round.rate()), append(cpus, round.cpu())
	}
	at.Rate, at.CPU = median(rates), median(cpus)
}

// RealSummary summarizes all real programs at one MTU.
type RealSummary struct {
	MTU       int
	Datapath  string
	Rounds    int
	Cases     int     // number of cases with operations
	Rate, CPU float64 // geometric means of ND / TCP
	Worst     string  // the case with the lowest rate relative to TCP
	WorstRate float64
}

// RealSummaries returns a summary for each MTU, in the order of the measurements.
func (r *Report) RealSummaries() (all []RealSummary) {
	for _, x := range r.Real {
		i := slices.IndexFunc(all, func(s RealSummary) bool { return s.MTU == x.MTU })
		if i < 0 {
			i = len(all)
			all = append(all, RealSummary{MTU: x.MTU, Datapath: x.Datapath, Rate: 1, CPU: 1})
		}
		s := &all[i]
		s.Rounds = max(s.Rounds, len(x.Rounds))
		if x.Idle > 0 {
			continue
		}
		if s.Cases++; s.Cases == 1 || x.Rate < s.WorstRate {
			s.Worst, s.WorstRate = x.Case, x.Rate
		}
		last := float64(s.Cases-1) / float64(s.Cases)
		s.Rate = math.Pow(s.Rate, last) * math.Pow(x.Rate, 1-last)
		s.CPU = math.Pow(s.CPU, last) * math.Pow(x.CPU, 1-last)
	}
	return all
}

// sane checks that the figures are complete and consistent.
func (x *RealResult) sane() error {
	if x.Case == "" || x.Datapath == "" || x.MTU < 1 || x.MTU > maxMTU || x.Idle < 0 {
		return fmt.Errorf("case %q, datapath %q, MTU %d, %d idle connections: a name is missing, or a number is out of range", x.Case, x.Datapath, x.MTU, x.Idle)
	}
	if len(x.Rounds) == 0 {
		return errors.New("there are no rounds")
	}
	figures := []float64{x.Rate, x.CPU}
	for _, r := range x.Rounds {
		for _, s := range []RealSide{r.TCP, r.ND} {
			figures = append(figures, s.Seconds, s.P50US, s.P99US, s.Opened, float64(s.ClientCPU), float64(s.ServerCPU))
			if moved := s.Ops > 0 && s.P50US > 0 && s.P99US >= s.P50US; s.Seconds <= 0 && x.Idle == 0 || moved == (x.Idle > 0) {
				return fmt.Errorf("no data was transferred, or the 99th percentile is below the median: %+v", s)
			}
			if x.Idle > 0 && s.Opened <= 0 {
				return fmt.Errorf("no connection was opened: %+v", s)
			}
		}
	}
	for _, v := range figures {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("figures must not be negative: %v", figures)
		}
	}
	return nil
}
