// Package plan says which datapaths can be opened on an interface, in which order and why. Facts are gathered first, and each choice is a
// function of facts. Adapters, forecasts for ndinfo and brokers all take the list that List returns.
package plan
