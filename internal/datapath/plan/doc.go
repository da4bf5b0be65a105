// Package plan says which datapaths can be opened on an interface, in which order and why. Facts are gathered first, and each choice is a
// function of these facts. Adapters, ndinfo and brokers all use the list that List returns.
package plan
