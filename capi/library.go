//go:build cgo

package main

// #include <stdlib.h>
import "C"

import (
	"fmt"

	"github.com/ndxdp/ndxdp/internal/buildinfo"
)

// main is not called: the package is built as a library.
func main() {}

// version is made once and never freed.
var version = func() *C.char {
	b := buildinfo.Read()
	return C.CString(fmt.Sprintf("%s (%s)", b.Version, b.Platform))
}()

//export ndxgo_version
func ndxgo_version() *C.char { return version }
