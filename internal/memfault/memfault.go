// Package memfault touches memory that the process may lose: a mapping of a file that gets shorter, or a mapping that is protected or
// unmapped. Elsewhere a processor's fault in this memory ends the process; here it is a result.
package memfault

import (
	"reflect"
	"runtime/debug"
)

// pageSize is how exact the address of a fault is at least.
const pageSize = 4096

// Try runs touch, which reads or writes b, and reports whether b could be used. If it could not, touch ended in the middle. All other panics go on. Memory that no process
// can lose needs no Try, which costs some 10 ns. touch must hold no lock that it releases at its end.
func Try(b []byte, touch func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil && !isFault(r, b) {
			panic(r)
		}
	}()
	touch()
	return true
}

// isFault reports whether a panic is that of a fault inside b.
func isFault(r any, b []byte) bool {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return false
	}
	start := reflect.ValueOf(b).Pointer()
	return fault.Addr() >= start&^(pageSize-1) && fault.Addr() < start+uintptr(len(b))
}

// Readable reports whether b can be read: a byte of each of its pages is.
func Readable(b []byte) bool {
	var read byte
	return Try(b, func() {
		for i := 0; i < len(b); i += pageSize {
			read |= b[i]
		}
		read |= b[len(b)-1]
	})
}
