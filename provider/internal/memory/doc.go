// Package memory owns the table of registered memory: regions, windows, fast registration, protection domains, the tokens that name them
// and the rights that they give. It knows users, which are queue pairs, but neither packets nor connections.
//
// Lookups are wait-free and happen for each packet. The memory that they return may be touched until the end of the engine's poll,
// because a goroutine that takes memory away owns every engine meanwhile (I5 of package provider).
package memory
