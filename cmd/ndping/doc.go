// Command ndping sends messages to another ndping, which sends them back, and prints the round-trip times.
package main
