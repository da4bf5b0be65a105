// Package memory owns the table of registered memory: regions, windows, fast registration, protection domains, the tokens that name them
// and the rights that they give. It knows users, which are queue pairs, and neither packets nor connections.
//
// Lookups are wait-free and happen for each packet. They return memory that may be touched until the turn that looked it up is over,
// because whoever takes memory away owns every engine meanwhile (I5 of package provider).
package memory
