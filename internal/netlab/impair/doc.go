// Package impair spoils ND packets where a router of package netlab sends them out: a small tc program drops, duplicates,
// corrupts and marks them, and counts what it did.
//
// It is for tests only. Like everything of netlab it leaves nothing behind: program and filter go with the namespace.
package impair
