// Package cli is what the commands have in common: how they start, fail, complete their arguments and draw on terminals.
package cli
