package provider

import (
	"sync/atomic"
	"testing"
)

// A connection is found by all bits of its id, also after the table has grown. It is not found after its slot was released.
func TestConnTable(t *testing.T) {
	const limit = 1000
	table := connTable{secret: 0x5a5a5a5a}
	table.slots.Store(new([]atomic.Pointer[conn]))
	conns := make([]*conn, 0, limit)
	for i := range uint64(limit) {
		slot, ok := table.alloc(limit)
		if !ok {
			t.Fatalf("no slot %d", i)
		}
		c := &conn{identity: identity{slot: slot, id: table.idOf(slot, 7*i)}}
		table.put(slot, c)
		conns = append(conns, c)
	}
	if _, ok := table.alloc(limit); ok || !table.full(limit) {
		t.Error("there is no limit")
	}
	for i, c := range conns {
		if table.lookup(c.identity.id) != c || table.lookup(c.identity.id^1<<24) != nil || table.lookup(c.identity.id^1<<63) != nil {
			t.Fatalf("connection %d", i)
		}
	}
	if table.lookup(0) != nil || table.lookup(table.idOf(limit, 0)) != nil {
		t.Error("a slot that was never taken has a connection")
	}
	given := conns[limit/2]
	table.give(given.identity.slot)
	if table.lookup(given.identity.id) != nil || table.full(limit) {
		t.Error("a slot that was given back is taken")
	}
	n := 0
	table.all(func(c *conn) bool { n++; return c != nil })
	if slot, ok := table.alloc(limit); n != limit-1 || !ok || slot != given.identity.slot {
		t.Errorf("%d connections, then slot %d", n, slot)
	}
}
