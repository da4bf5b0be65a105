// Command ndinfo shows what this machine's adapters can do, and doctor says what keeps ND from running and how to help it.
package main
