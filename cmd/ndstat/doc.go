// Command ndstat shows the ND connections of running processes, and what limits each of them.
package main
