// Package guard bounds what unknown peers can make an engine store and send (PROTOCOL §7.5). Cookies prove addresses. Budgets bound
// the connections of a source. Buckets bound the answers per second. A ring bounds the ended connections. The package is a function
// of numbers, keys and times: it sends nothing and ends nothing. The owner of the engine calls it.
package guard
