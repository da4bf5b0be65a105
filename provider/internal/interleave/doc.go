// Package interleave is the part of sync and sync/atomic that the engines' shards, doorbells, inboxes and moves are written with. Its types
// are those of the standard library, under other names, so that they cost nothing.
//
// With the build tag interleave they are types of its own, and each operation on them is a step: Explore runs goroutines step by
// step in every order there is, up to a bound, on the real code (loom does the same for Rust). Everything between two steps of a
// goroutine happens at once for the others, so what several goroutines touch without these types has to be covered by a
// lock or an operation of them, or is seen in fewer orders than there are.
package interleave
