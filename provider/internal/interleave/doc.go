// Package interleave provides the types of sync and sync/atomic that the engines' shards, doorbells, inboxes and moves use.
// Normally they are aliases of the standard library's types, and so cost nothing.
//
// With the build tag interleave they are types of this package, and each operation on them is a step. Explore runs goroutines step
// by step in every order, up to a bound, on the real code (as loom does for Rust). Everything between two steps of a goroutine is
// atomic for other goroutines. So shared memory that does not use these types must be protected by a lock or an operation of these
// types. Otherwise fewer orders are explored than are possible.
package interleave
