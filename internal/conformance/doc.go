// Package conformance reads the table of statuses in the ND specification, compares it with the tests, and prints which rows are
// tested. It also has test cases at the edges of memory, for both API packages.
package conformance
