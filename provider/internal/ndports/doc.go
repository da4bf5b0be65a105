// Package ndports counts the users of each ND endpoint of an adapter.
package ndports
