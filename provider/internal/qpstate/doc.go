// Package qpstate defines the states of a queue pair and their transitions (ND specification, queue pair state table).
package qpstate
