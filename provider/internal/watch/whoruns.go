package watch

// Caller is a reason to run an engine's next poll.
type Caller uint8

const (
	CallerPoll    Caller = iota // polls, and will soon again: Shard.Poll
	CallerLook                  // polls once, perhaps for the last time: Shard.Look
	CallerPost                  // posted a request to an empty queue: Shard.runFor
	CallerRing                  // posted a request behind others: Shard.Ring
	CallerCall                  // makes a call that needs the owner's lock: Shard.Do
	CallerRelease               // stops polling: Shard.Release
	CallerLeave                 // has released the engine, and sees a doorbell that was rung meanwhile: Shard.exit
	CallerWatch                 // waits for packets: Shard.attend
	numCallers
)

// Attendance is what the watcher does when another goroutine is about to poll.
type Attendance uint8

const (
	Attends  Attendance = iota // polls; or leaves polling to pollers, and the progress goroutine checks every takeOver
	Sleeps                     // waits for packets, a deadline or a wake-up
	Missing                    // no watcher: an application slept and does something else; the progress goroutine checks after takeOver
	Finished                   // no watcher: the engine has ended
	numAttendances
)

// TurnKind is a kind of poll: the part of an engine's work that runs under one hold of the lock.
type TurnKind uint8

const (
	NoTurn     TurnKind = iota
	WholeTurn           // Engine.Run
	GlanceTurn          // Engine.Glance
	ServeTurn           // Engine.Serve
)

// WhoRuns says which kind of poll each caller runs. While a watcher attends, callers leave doorbells to it, because its next poll
// comes by itself. While the watcher sleeps or is missing, the caller does its work itself, because this is faster than waking
// another goroutine. A glance defers work to the next poll, so only pollers beside an attending goroutine use it. A caller that
// only looks promises no next poll.
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

// Attendance returns what the watcher does now. The watcher may wake at any time, but falls asleep only under the shard's lock.
func (s *Sleeper) Attendance() Attendance {
	switch {
	case s.Asleep():
		return Sleeps
	case s.Left():
		return Missing
	}
	return Attends
}
