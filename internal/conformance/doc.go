// Package conformance reads the table of statuses that the ND specification promises, holds tests against it, and prints which
// rows are proven.
package conformance
