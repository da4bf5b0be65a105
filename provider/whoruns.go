package provider

// caller is who would run an engine's next turn, and why.
type caller uint8

const (
	callerPoll     caller = iota // polls, and does so again soon: Shard.Poll
	callerLook                   // polls once, and may never come back: Shard.Look
	callerPost                   // has posted a request that has none before it: Shard.serve
	callerRing                   // has posted others: Shard.Ring
	callerCall                   // calls as the owner: Shard.Do
	callerRelease                // stops polling: Shard.Release
	callerLeave                  // has given the engine up, and sees a doorbell that was rung meanwhile: Shard.exit
	callerProgress               // the progress goroutine
	numCallers
)

// attendance is what the progress goroutine does while somebody else is about to run a turn.
type attendance uint8

const (
	attends  attendance = iota // runs turns, or leaves them to pollers and looks every takeOver
	sleeps                     // waits for packets, its deadline, or to be woken
	finished                   // none: the engine runs no turn any more
	numAttendances
)

// turnKind is a part of an engine's work that is done without giving the engine up in between.
type turnKind uint8

const (
	noTurn     turnKind = iota
	wholeTurn           // Engine.Run
	glanceTurn          // Engine.Glance
	serveTurn           // Engine.Serve
)

// whoRuns says who runs which turn. While the progress goroutine attends, it is the one who answers doorbells, because its next turn comes by
// itself; while it sleeps, whoever has something to be done does it, which is faster than waking somebody. A glance puts work off to a
// turn that is sure to come, so it is for pollers beside a goroutine that attends. One who only looks promises no next turn.
var whoRuns = [numCallers][numAttendances]turnKind{
	callerPoll:     {attends: glanceTurn, sleeps: wholeTurn},
	callerLook:     {attends: wholeTurn, sleeps: wholeTurn},
	callerPost:     {attends: serveTurn, sleeps: serveTurn},
	callerRing:     {sleeps: wholeTurn},
	callerCall:     {attends: wholeTurn, sleeps: wholeTurn},
	callerRelease:  {sleeps: wholeTurn},
	callerLeave:    {sleeps: wholeTurn},
	callerProgress: {attends: wholeTurn},
}
