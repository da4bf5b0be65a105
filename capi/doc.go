//go:build cgo

// Package main is libndxdp.so, the library for C and for languages that call C. ndxdp.h is its interface and its manual.
//
// The public functions are in C (surface.c). They refuse to work in a forked child, and call the functions that this package exports, which
// the linker hides from programs. The package is a surface of internal/verbs, as nd and nd/ndk are: it maps handles to objects and
// outcomes to statuses.
package main
