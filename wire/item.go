package wire

import "encoding/binary"

// ItemType is the type of an item behind the fixed part of REQ and REP (PROTOCOL §7.1).
type ItemType uint16

// Types of items. Types from ItemGrease on will never have a meaning.
const (
	ItemCookie   ItemType = 1
	ItemPrivate  ItemType = 2
	ItemBulkPort ItemType = 3
	ItemHello    ItemType = 4 // a fragment of a TLS ClientHello (PROTOCOL §10.2)
	ItemGrease   ItemType = 0xf000
)

const (
	// MaxGrease is the longest value of a grease item, in bytes (PROTOCOL §7.1).
	MaxGrease = 16
	// CookieItemLen is the length of an item with a cookie, which is the first item (PROTOCOL §7.1).
	CookieItemLen = itemHeaderLen + CookieLen
	bulkPortLen   = 2
	itemHeaderLen = 4
	itemAlign     = 4
)

// Item is a typed value. A receiver ignores items of unknown types.
type Item struct {
	Type  ItemType
	Value []byte
}

// itemLen returns the length of an item whose value has n bytes.
func itemLen(n int) int { return itemHeaderLen + (n+itemAlign-1)&^(itemAlign-1) }

// ParseItem decodes the item at the start of b. last is the type of the previous item, or 0. The value is a view of b; rest is the
// data behind the item. Types must ascend, so no item occurs twice, and a sender gains nothing by many items (PROTOCOL §7.1).
func ParseItem(b []byte, last ItemType) (it Item, rest []byte, d DropReason) {
	if len(b) < itemHeaderLen {
		return Item{}, nil, DropItem
	}
	it.Type = ItemType(binary.BigEndian.Uint16(b))
	n := int(binary.BigEndian.Uint16(b[2:]))
	size := itemLen(n)
	if it.Type <= last || size > len(b) || !AllZero(b[itemHeaderLen+n:size]) {
		return Item{}, nil, DropItem
	}
	it.Value = view(b[itemHeaderLen:], n)
	return it, b[size:], DropNone
}

// appendItem appends an item and its padding.
func appendItem(dst []byte, it Item) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(it.Type))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(it.Value)))
	return appendPadding(append(dst, it.Value...), len(it.Value))
}

// appendPadding appends the padding behind a value of n bytes.
func appendPadding(dst []byte, n int) []byte {
	for range itemLen(n) - itemHeaderLen - n {
		dst = append(dst, 0)
	}
	return dst
}
