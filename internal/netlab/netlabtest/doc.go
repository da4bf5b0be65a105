// Package netlabtest gives tests networks that end with them, or skips the tests where networks cannot be had.
package netlabtest
