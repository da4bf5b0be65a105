// Package follow tracks changes of an adapter's interface and of the routes and neighbours of its peers, and makes the device apply them.
package follow
