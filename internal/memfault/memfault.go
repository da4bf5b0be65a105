// Package memfault accesses memory that the process may lose: a mapping of a file that is truncated, or a mapping that is protected
// or unmapped. Normally a fault in this memory ends the process; here it is a result.
package memfault

import (
	"reflect"
	"runtime/debug"
)

// pageSize is the least precision of a fault's address.
const pageSize = 4096

// Try runs touch, which reads or writes b. It returns false if b caused a fault, which ends touch in the middle. Other panics are
// not caught. Memory that the process cannot lose needs no Try, which costs some 10 ns. touch must not hold a lock that it releases
// at its end.
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

// isFault reports whether a panic is a fault inside b.
func isFault(r any, b []byte) bool {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return false
	}
	start := reflect.ValueOf(b).Pointer()
	return fault.Addr() >= start&^(pageSize-1) && fault.Addr() < start+uintptr(len(b))
}

// Readable reports whether b can be read, by reading a byte of each page.
func Readable(b []byte) bool {
	var read byte
	return Try(b, func() {
		for i := 0; i < len(b); i += pageSize {
			read |= b[i]
		}
		read |= b[len(b)-1]
	})
}
