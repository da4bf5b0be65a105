package main

// event is one line of --json. Fields that do not apply are left out.
type event struct {
	Event    string `json:"event"`
	Address  string `json:"address,omitempty"` // of the peer, or of a listener
	Datapath string `json:"datapath,omitempty"`
	Error    string `json:"error,omitempty"`

	Bytes   int     `json:"bytes,omitempty"`   // size of a message
	Message uint64  `json:"message,omitempty"` // number of the message, from 1
	US      float64 `json:"us,omitempty"`      // round trip of an answer, or the time without an answer

	*Counts
	*Trips
	*Traffic
}

// Counts are the message counts of a summary, or of a peer that left.
type Counts struct {
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
}

// Trips are percentiles of the round trips of a summary, in microseconds.
type Trips struct {
	Min float64 `json:"min_us"`
	P50 float64 `json:"p50_us"`
	P90 float64 `json:"p90_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// Traffic is the total of all connections of a run.
type Traffic struct {
	Out    uint64 `json:"packets_out"`
	In     uint64 `json:"packets_in"`
	Resent uint64 `json:"packets_resent"`
}
