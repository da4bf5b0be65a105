// Package testhelp has helpers that the tests of many packages share. Only tests import it.
package testhelp
