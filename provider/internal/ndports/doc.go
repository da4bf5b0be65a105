// Package ndports knows which ND endpoints of an adapter are in use, and how many use each.
package ndports
