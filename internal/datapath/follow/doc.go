// Package follow keeps what an adapter knows of its interface and of the ways to its peers current while it is open, and makes its device act
// on changes.
package follow
