// Package impair damages ND packets at a router port of package netlab. A small tc program drops, duplicates, corrupts and marks
// packets, and counts what it did.
//
// It is for tests only. Program and filter disappear with the namespace.
package impair
