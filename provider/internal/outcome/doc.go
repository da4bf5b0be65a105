// Package outcome defines how requests and calls end: outcomes, causes, and lists of calls that wait for an outcome.
package outcome
