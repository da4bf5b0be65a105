// Command ndstat shows what the ND connections of running processes do, and what keeps each of them from doing more.
package main
