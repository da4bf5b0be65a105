//go:build !interleave

package interleave

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Exploring says that operations are steps.
const Exploring = false

// The types of sync and sync/atomic.
type (
	Mutex          = sync.Mutex
	WaitGroup      = sync.WaitGroup
	Bool           = atomic.Bool
	Int32          = atomic.Int32
	Int64          = atomic.Int64
	Uint32         = atomic.Uint32
	Pointer[T any] = atomic.Pointer[T]
)

// Gosched is runtime.Gosched.
func Gosched() { runtime.Gosched() }
