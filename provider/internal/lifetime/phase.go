package lifetime

import "github.com/ndxdp/ndxdp/wire"

// Phase is the state of a connection on the wire. The connector's state determines which calls the application may make.
type Phase uint8

// The phases of a connection.
const (
	Free      Phase = iota
	ReqSent         // active: REQ is repeated until an answer arrives
	Accepted        // active: REP received, the application has not decided
	RtuSent         // active: RTU is repeated until the peer acknowledges it
	HalfOpen        // passive: REQ received, the application has not decided
	RepSent         // passive: REP is repeated until REPACK, then sent as a probe
	Open            // data may be sent; RTU is repeated if the active side did not wait for its answer
	Lingering       // ended; answers with its last message for a while
	Shaking         // TLS handshake; its bytes are repeated until the peer has them
)

// NumPhases is the number of phases.
const NumPhases = int(Shaking) + 1

// phases is the table of phases. A golden test prints it.
var phases = [NumPhases]struct {
	name     string      // as shown in captures and flight records
	stage    string      // as shown to users
	next     uint16      // bit mask of the phases that may follow
	repeated wire.Opcode // message that is repeated until the peer answers; zero if none
	again    wire.Opcode // answer to a repeated REQ (PROTOCOL §7.3); zero if not a handshake message
	attempt  bool        // not established; REJ ends it
	thinking bool        // waits for an application; only silence of the peer ends the wait
}{
	Free:      {name: "free", stage: "closing", next: 1<<ReqSent | 1<<HalfOpen | 1<<Shaking | 1<<Free},
	ReqSent:   {name: "req_sent", stage: "connecting", next: 1<<Accepted | 1<<Lingering, repeated: wire.CtlREQ, attempt: true},
	Accepted:  {name: "accepted", stage: "connecting", next: 1<<RtuSent | 1<<Lingering, attempt: true, thinking: true},
	RtuSent:   {name: "rtu_sent", stage: "connecting", next: 1<<Open | 1<<Lingering, repeated: wire.CtlRTU, attempt: true},
	HalfOpen:  {name: "half_open", stage: "connecting", next: 1<<RepSent | 1<<Lingering | 1<<Free, again: wire.CtlPEND, attempt: true, thinking: true},
	RepSent:   {name: "rep_sent", stage: "connecting", next: 1<<Open | 1<<Lingering, repeated: wire.CtlREP, again: wire.CtlREP, attempt: true},
	Open:      {name: "open", stage: "open", next: 1 << Lingering, repeated: wire.CtlRTU, again: wire.CtlREP},
	Lingering: {name: "lingering", stage: "closing", next: 1 << Free},
	Shaking:   {name: "shaking", stage: "connecting", next: 1<<ReqSent | 1<<HalfOpen | 1<<Lingering | 1<<Free, repeated: wire.CtlSHAKE, attempt: true},
}

// Names returns the short names of all phases.
func Names() []string {
	names := make([]string, NumPhases)
	for p := range phases {
		names[p] = phases[p].name
	}
	return names
}

// String returns the name of the phase in captures and flight records.
func (p Phase) String() string { return phases[p].name }

// Stage returns the name of the phase for users: connecting, open or closing.
func (p Phase) Stage() string { return phases[p].stage }

// Repeated returns the message that is repeated until the peer answers, or zero if there is none.
func (p Phase) Repeated() wire.Opcode { return phases[p].repeated }

// AnswerToREQ returns the answer to a repeated REQ, or zero if it is no handshake message.
func (p Phase) AnswerToREQ() wire.Opcode { return phases[p].again }

// Attempt reports whether the connection is not established yet.
func (p Phase) Attempt() bool { return phases[p].attempt }

// Enter changes the phase. It returns false if next may not follow. Nothing else writes a phase.
func (p *Phase) Enter(next Phase) (ok bool) {
	if phases[*p].next&(1<<next) == 0 {
		return false
	}
	*p = next
	return true
}
