// Command ndping sends messages to another ndping, which sends them back, and says how long that took.
package main
