package lifetime

import "github.com/ndxdp/ndxdp/wire"

// Phase is the state of a connection on the wire. The connector's state says what the application may
// do.
type Phase uint8

// The phases of a connection.
const (
	Free      Phase = iota
	ReqSent         // active: REQ goes out until something answers
	Accepted        // active: REP seen, the application thinks
	RtuSent         // active: RTU goes out until the peer notes it
	HalfOpen        // passive: REQ seen, the application thinks
	RepSent         // passive: REP goes out until REPACK, then as a probe
	Open            // data flows
	Lingering       // over; repeats its last word for a while
)

// NumPhases is how many there are.
const NumPhases = int(Lingering) + 1

// phases is the whole table; its golden test prints it.
var phases = [NumPhases]struct {
	name     string      // as captures and flight records print it
	stage    string      // for people
	next     uint16      // the phases that may follow
	repeated wire.Opcode // the message that goes out until the peer answers; zero for none
	again    wire.Opcode // what answers a REQ that comes again (PROTOCOL §7.3); zero for nothing of the handshake
	attempt  bool        // not established, and REJ ends it
	thinking bool        // an application is awaited; only the peer's silence ends that
}{
	Free:      {name: "free", stage: "closing", next: 1<<ReqSent | 1<<HalfOpen | 1<<Free},
	ReqSent:   {name: "req_sent", stage: "connecting", next: 1<<Accepted | 1<<Lingering, repeated: wire.CtlREQ, attempt: true},
	Accepted:  {name: "accepted", stage: "connecting", next: 1<<RtuSent | 1<<Lingering, attempt: true, thinking: true},
	RtuSent:   {name: "rtu_sent", stage: "connecting", next: 1<<Open | 1<<Lingering, repeated: wire.CtlRTU, attempt: true},
	HalfOpen:  {name: "half_open", stage: "connecting", next: 1<<RepSent | 1<<Lingering | 1<<Free, again: wire.CtlPEND, attempt: true, thinking: true},
	RepSent:   {name: "rep_sent", stage: "connecting", next: 1<<Open | 1<<Lingering, repeated: wire.CtlREP, again: wire.CtlREP, attempt: true},
	Open:      {name: "open", stage: "open", next: 1 << Lingering, again: wire.CtlREP},
	Lingering: {name: "lingering", stage: "closing", next: 1 << Free},
}

// Names returns the short names of all phases.
func Names() []string {
	names := make([]string, NumPhases)
	for p := range phases {
		names[p] = phases[p].name
	}
	return names
}

// String returns the short name of the phase.
func (p Phase) String() string { return phases[p].name }

// Stage is where the connection stands, for people: connecting, open or closing.
func (p Phase) Stage() string { return phases[p].stage }

// Repeated is the message that goes out until the peer answers it; zero for none.
func (p Phase) Repeated() wire.Opcode { return phases[p].repeated }

// AnswerToREQ is what answers a REQ that comes again; zero for nothing of the handshake.
func (p Phase) AnswerToREQ() wire.Opcode { return phases[p].again }

// Attempt says that the connection is not established yet.
func (p Phase) Attempt() bool { return phases[p].attempt }

// Enter is the only writer of a phase. It refuses a phase that may not follow.
func (p *Phase) Enter(next Phase) (ok bool) {
	if phases[*p].next&(1<<next) == 0 {
		return false
	}
	*p = next
	return true
}
