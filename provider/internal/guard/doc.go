// Package guard bounds what unknown peers can make an engine store and send (PROTOCOL §7.5). Cookies prove addresses, budgets
// bound the connections of a source, buckets the answers per second, and a ring the ended connections. Everything is a
// function of numbers, keys and times. Nothing here sends or ends anything. The owner of the engine calls it.
package guard
