package ndhealth

import (
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity uint8

// Severities of findings.
const (
	OK      Severity = iota
	Hint             // works, but worse than possible or in an unexpected way
	Problem          // does not work
)

var severities = []string{"ok", "hint", "problem"}

// String returns the name of the severity: ok, hint, problem.
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

// Finding is the result of one check.
type Finding struct {
	Check    string   `json:"check"` // name, the same in every report
	Severity Severity `json:"severity"`
	Found    string   `json:"found"`            // what was examined, and its state
	Why      string   `json:"why,omitempty"`    // why it matters; empty if all is well
	Remedy   string   `json:"remedy,omitempty"` // the command or action that helps
}

// Report is the result of an examination, most fundamental findings first.
type Report struct {
	Interface string    `json:"interface"`
	Address   string    `json:"address,omitempty"`
	Datapath  string    `json:"datapath"` // datapath that would be used
	Reason    string    `json:"reason,omitempty"`
	Findings  []Finding `json:"findings"`
}

// Works reports whether no finding prevents ND from running.
func (r *Report) Works() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Problem })
}

// peerCheck is the name of the check of another machine.
const peerCheck = "peer"

// WorksHere reports whether no finding on this machine prevents ND from running, whatever the peer does.
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
