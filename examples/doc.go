// Package examples tests the programs in its directories: each of them runs over loopback and needs no privileges.
package examples
