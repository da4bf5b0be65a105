// Command hello is the program of README.md: an initiator writes into the memory of a target, and the target prints it.
package main
