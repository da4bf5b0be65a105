// Package linktest is a link for tests of what writes packets, without an engine.
package linktest
