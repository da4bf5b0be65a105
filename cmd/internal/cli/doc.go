// Package cli is the common part of the commands: start, errors, completion of arguments, and output on terminals.
package cli
