// Package interleave is the part of sync and sync/atomic that the engines' shards, doorbells, inboxes and moves use. Its types are the
// standard library's under other names, so that they cost nothing.
//
// With the build tag interleave they are types of its own, and each operation on them is a step. Explore runs goroutines step by step in
// every order, up to a bound, on the real code (loom does the same for Rust). For other goroutines, everything between two steps of a
// goroutine happens at once. So memory that several goroutines touch without these types must be protected by a lock or an operation of
// them; otherwise fewer orders are explored than exist.
package interleave
