// Package linktest provides a link for tests of packet building without an engine.
package linktest
