// Package memory owns the table of registered memory: regions, windows, fast registration, protection domains, and the tokens and
// rights of each. It knows users, which are queue pairs, but neither packets nor connections.
//
// Lookups are wait-free and happen for each packet. The memory that they return may be accessed until the end of the engine's poll,
// because a goroutine that deregisters memory must own every engine (I5 of package provider).
package memory
