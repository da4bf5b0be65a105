// Package conformance reads the table of statuses that the ND specification promises, holds tests against it, and prints which
// rows are proven. It also has the cases at the edges of memory that the tests of both API shapes go through.
package conformance
