// Package outcome owns how requests and calls end: the causes, their names, and the calls that wait to be told one.
package outcome
