// Package guard bounds what strangers can make an engine keep and send (PROTOCOL §7.5): cookies prove addresses, budgets bound
// the connections of a source, buckets the answers in a second, and a ring the connections that are over. All of it is a
// function of numbers, keys and times; nothing here sends or ends anything. The owner of the engine calls it.
package guard
