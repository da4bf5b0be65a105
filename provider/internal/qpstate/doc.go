// Package qpstate is the states of a queue pair, and what leads from one to another (ND specification, queue pair state table).
package qpstate
