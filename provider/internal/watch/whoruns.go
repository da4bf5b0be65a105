package watch

// Caller is who would run an engine's next turn, and why.
type Caller uint8

const (
	CallerPoll    Caller = iota // polls, and does so again soon: Shard.Poll
	CallerLook                  // polls once, and may never come back: Shard.Look
	CallerPost                  // has posted a request that has none before it: Shard.serve
	CallerRing                  // has posted others: Shard.Ring
	CallerCall                  // calls as the owner: Shard.Do
	CallerRelease               // stops polling: Shard.Release
	CallerLeave                 // has given the engine up, and sees a doorbell that was rung meanwhile: Shard.exit
	CallerWatch                 // waits for packets: Shard.attend
	numCallers
)

// Attendance is what the watcher does while somebody else is about to run a turn.
type Attendance uint8

const (
	Attends  Attendance = iota // runs turns, or leaves them to pollers and the progress goroutine looks every takeOver
	Sleeps                     // waits for packets, its deadline, or to be woken
	Missing                    // none: an application slept and does something else; the progress goroutine looks after takeOver
	Finished                   // none: the engine runs no turn any more
	numAttendances
)

// TurnKind is a part of an engine's work that is done without giving the engine up in between.
type TurnKind uint8

const (
	NoTurn     TurnKind = iota
	WholeTurn           // Engine.Run
	GlanceTurn          // Engine.Glance
	ServeTurn           // Engine.Serve
)

// WhoRuns says which kind of poll each caller runs. While a watcher attends, it answers doorbells, because its next poll comes by itself.
// While it sleeps or is missing, the caller that has work does it, which is faster than waking another goroutine. A glance defers work to a
// poll that is sure to come, so it is for pollers beside an attending goroutine. A caller that only looks promises no next poll.
var WhoRuns = [numCallers][numAttendances]TurnKind{
	CallerPoll:    {Attends: GlanceTurn, Sleeps: WholeTurn, Missing: WholeTurn},
	CallerLook:    {Attends: WholeTurn, Sleeps: WholeTurn, Missing: WholeTurn},
	CallerPost:    {Attends: ServeTurn, Sleeps: ServeTurn, Missing: ServeTurn},
	CallerRing:    {Sleeps: WholeTurn, Missing: WholeTurn},
	CallerCall:    {Attends: WholeTurn, Sleeps: WholeTurn, Missing: WholeTurn},
	CallerRelease: {Sleeps: WholeTurn},
	CallerLeave:   {Sleeps: WholeTurn, Missing: WholeTurn},
	CallerWatch:   {Attends: WholeTurn, Missing: WholeTurn},
}

// Attendance is what the watcher does now. It may wake at any time, and lies down under the shard's lock alone.
func (s *Sleeper) Attendance() Attendance {
	switch {
	case s.Asleep():
		return Sleeps
	case s.Left():
		return Missing
	}
	return Attends
}
