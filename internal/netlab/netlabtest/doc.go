// Package netlabtest provides networks that end with a test, and skips tests for which no network can be made.
package netlabtest
