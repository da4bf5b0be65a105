package ndhealth

import (
	"fmt"
	"slices"
)

// Severity says what a finding means.
type Severity uint8

// The severities.
const (
	OK      Severity = iota
	Hint             // it runs, but not as well as it could, or not where one thinks
	Problem          // it does not run
)

var severities = []string{"ok", "hint", "problem"}

// String names the severity: ok, hint, problem.
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText returns the inverse of String.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities, string(text))
	if i < 0 {
		return fmt.Errorf("unknown severity %q", text)
	}
	*s = Severity(i)
	return nil
}

// Finding is what one check found.
type Finding struct {
	Check    string   `json:"check"` // its name, the same in every report
	Severity Severity `json:"severity"`
	Found    string   `json:"found"`            // what was looked at, and what it is
	Why      string   `json:"why,omitempty"`    // why it matters; empty when all is well
	Remedy   string   `json:"remedy,omitempty"` // the command or the deed that helps
}

// Report is what an examination found, most fundamental first.
type Report struct {
	Interface string    `json:"interface"`
	Address   string    `json:"address,omitempty"`
	Datapath  string    `json:"datapath"` // that would move packets
	Reason    string    `json:"reason,omitempty"`
	Findings  []Finding `json:"findings"`
}

// Works reports whether nothing found keeps ND from running.
func (r *Report) Works() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Problem })
}

// peerCheck is the check that is about another machine.
const peerCheck = "peer"

// WorksHere reports whether nothing found on this machine keeps ND from running, whatever the peer does.
func (r *Report) WorksHere() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Problem && f.Check != peerCheck })
}

func ok(format string, args ...any) Finding { return Finding{Found: fmt.Sprintf(format, args...)} }

func hint(found, why, remedy string) Finding {
	return Finding{Severity: Hint, Found: found, Why: why, Remedy: remedy}
}

func problem(found, why, remedy string) Finding {
	return Finding{Severity: Problem, Found: found, Why: why, Remedy: remedy}
}
