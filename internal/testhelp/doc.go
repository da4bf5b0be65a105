// Package testhelp has what the tests of many packages say alike. Only tests import it.
package testhelp
