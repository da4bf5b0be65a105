//go:build amd64 || arm64

// Package stackroom makes room on the stack of a goroutine for signal handlers of C programs.
//
// A handler without SA_ONSTACK runs on the stack of the code that it interrupts. Goroutine stacks begin with a few KiB, and the memory below
// them belongs to others.
package stackroom

// Room is how many bytes Reserve makes room for.
const Room = 64 << 10

// Reserve makes the stack of the calling goroutine have Room bytes below the caller's frame. A garbage collection may halve the stack
// later, as long as a quarter of it is not used. It takes about a nanosecond if the stack has the room.
func Reserve()
