-- Wireshark dissector of the ndxdp protocol, version 3 (docs/PROTOCOL.md). It is written from that page and not from the
-- Go code, so that the two check each other. How to load it: docs/OPERATING.md#captures.
--
-- A packet that a receiver would drop for its form carries the expert info ndxdp.malformed, or ndxdp.unknown when it has an
-- opcode or a version that the page does not define. What only a connection can judge (places, tokens) is not judged here.

local ndxdp = Proto("ndxdp", "NetworkDirect over XDP")

ndxdp.prefs.port = Pref.uint("UDP port", 14791, "Destination port of all packets (PROTOCOL 2)")
ndxdp.prefs.crc = Pref.bool("Verify the CRC32C", false,
	"Compute the checksum of every packet that was captured whole (PROTOCOL 3.4); slow for large packets")

local BASE, ACK, RANGE, REPORT, OP_HEADER, CONTROL_HEADER, HELLO = 24, 12, 8, 20, 4, 4, 60
local MIN_REQ, MAX_PRIVATE, MAX_FURTHER = 1200, 512, 32
local TAG, SHAKE, MAX_SHAKE, SECURE = 16, 28, 1116, 0x20
local T_CONTROL, T_OPERATIONS, T_PIECE = 0, 1, 2
local MORE, TERM = 0x08, 0x07

-- Bits, without operators: Lua 5.2 has none for integers, and Lua 5.4 no bit32.

local function has(value, mask) return value % (2 * mask) >= mask end

local function round8(n) return math.ceil(n / 8) * 8 end

-- Names.

local OPS = {
	[0x01] = "WRITE", [0x02] = "SEND", [0x03] = "SEND_INV", [0x04] = "SEND_IMM", [0x05] = "READ_REQ",
	[0x06] = "READ_RESP", [0x07] = "TERM", [0x08] = "MORE",
}
local CONTROLS = {
	[0x11] = "PING", [0x12] = "PONG", [0x13] = "PROBE", [0x14] = "PROBE_ACK", [0x15] = "CHALLENGE",
	[0x16] = "RESPONSE", [0x20] = "REQ",
	[0x21] = "RETRY", [0x22] = "PEND", [0x23] = "REP", [0x24] = "REPACK", [0x25] = "RTU", [0x26] = "REJ",
	[0x27] = "DREQ", [0x28] = "DREP", [0x29] = "RST", [0x2a] = "SHAKE",
}
local REJECTS = {
	[1] = "consumer", [2] = "no listener", [3] = "backlog", [4] = "version", [5] = "policy", [6] = "declined",
	[7] = "abandoned", [8] = "withdrawn", [9] = "exists", [10] = "tls",
}
local TERMS = {
	[1] = "access", [2] = "access by a READ", [3] = "SEND longer than the receive", [4] = "inbound read limit",
	[5] = "invalidation", [6] = "protocol error", [7] = "fault of the sender", [8] = "no receive in time",
	[9] = "flushed", [10] = "disconnected",
}

-- Fields.

local f = {}
local function field(name, make, ...) f[name] = make("ndxdp." .. name, ...) end
local u8, u16, u32, u64 = ProtoField.uint8, ProtoField.uint16, ProtoField.uint32, ProtoField.uint64
local bytes, flag, none = ProtoField.bytes, ProtoField.bool, ProtoField.none

field("version", u8, "Version", base.DEC, nil, 0xf0)
field("type", u8, "Type", base.DEC, { [0] = "control", [1] = "operations", [2] = "piece" }, 0x0f)
field("flags", u8, "Flags", base.HEX)
field("flags.ackreq", flag, "ACKREQ", 8, nil, 0x01, "The sender asks for an acknowledgement now")
field("flags.space", flag, "SPACE", 8, { "response", "request" }, 0x02)
field("flags.ack", flag, "ACK", 8, nil, 0x04, "An ACK block follows the base header")
field("flags.report", flag, "REPORT", 8, nil, 0x08, "A REPORT block follows")
field("flags.end", flag, "END", 8, nil, 0x10, "The piece is the last of its message")
field("flags.secure", flag, "SECURE", 8, nil, 0x20)
field("flags.long", flag, "LONG", 8, nil, 0x40, "The packet is a whole GSO batch")
field("message", u16, "Message of the first byte (low 16 bits)")
field("number", u32, "Packet number (low 32 bits)")
field("conn_id", u64, "Connection id of the receiver", base.HEX)
field("offset", u32, "Offset of the first byte in its message")
field("crc", u32, "CRC32C", base.HEX)
field("crc.good", flag, "CRC32C is right")
field("generation", u32, "Key generation")
field("from_port", u16, "UDP port that the sender receives on")
field("sealed", bytes, "Encrypted blocks and contents")
field("tag", bytes, "Tag")

field("op", none, "Operation")
field("op.code", u8, "Opcode", base.HEX, OPS)
field("op.flags", u8, "Flags", base.HEX)
field("op.flags.last", flag, "LAST", 8, nil, 0x02)
field("op.flags.solicit", flag, "SOLICIT", 8, nil, 0x04)
field("op.length", u16, "Payload length")
field("op.message", u16, "Message (low 16 bits)")
field("op.address", u64, "Address", base.HEX)
field("op.token", u32, "Token", base.HEX)
field("op.number", u32, "Number", base.DEC, nil, nil, "SEND number, read id, or number of the failing message")
field("op.total", u32, "Total length")
field("op.zero", u32, "Zero", base.HEX)
field("op.invalidate", u32, "Token to invalidate", base.HEX)
field("op.immediate", u32, "Immediate", base.HEX)
field("op.read_length", u32, "Length of the READ")
field("op.reason", u16, "Reason", base.DEC, TERMS)
field("op.failed_code", u8, "Failing opcode", base.HEX, OPS)
field("op.payload", bytes, "Payload")
field("op.padding", bytes, "Padding")

field("piece", bytes, "Piece of a message")

field("ctl", none, "Control message")
field("ctl.code", u8, "Opcode", base.HEX, CONTROLS)
field("ctl.flags", u8, "Flags", base.HEX)
field("ctl.flags.abort", flag, "ABORT", 8, nil, 0x01)
field("ctl.length", u16, "Body length")
field("ctl.padding", bytes, "Padding")
field("nonce", u32, "Nonce", base.HEX)
field("ping.udp_port", u16, "UDP port that the sender receives on")
field("ping.zero", u16, "Zero", base.HEX)
field("challenge", u64, "Nonce of a path", base.HEX)
field("probe.size", u16, "Size of the ND packet")
field("probe.zero", u16, "Zero", base.HEX)
field("limit", u32, "Receive limit")

field("ack", none, "ACK block")
field("ack.largest", u32, "Largest number received")
field("ack.delay", u16, "Delay (256 ns)")
field("ack.further", u8, "Further ranges")
field("ack.flags", u8, "Flags", base.HEX)
field("ack.flags.ce", flag, "CE", 8, nil, 0x01, "A congestion mark arrived since the last packet")
field("ack.flags.away", flag, "AWAY", 8, nil, 0x02, "The receiver was off its core")
field("ack.gap", u32, "Numbers not received, less one")
field("ack.length", u32, "Numbers received, less one")
field("ack.low", u32, "Lowest number of a range")
field("ack.high", u32, "Highest number of a range")

field("report", none, "REPORT block")
field("report.message", u16, "Message that is next in the request space (low 16 bits)")
field("report.offset", u32, "Byte of that message that is next")
field("report.up_to", u32, "Packet number up to which what came for it does not count")
field("report.load", u8, "Load")
field("report.flags", u8, "Flags", base.HEX)
field("report.flags.rnr", flag, "RNR", 8, nil, 0x01, "A SEND was dropped because there was no receive for it")
field("report.flags.taken_back", flag, "TAKEN BACK", 8, nil, 0x02)
field("report.ce_count", u32, "CE count")

field("hello.conn_id", u64, "Connection id of the sender", base.HEX)
field("hello.nonce", u64, "Nonce", base.HEX)
field("hello.src_port", u16, "ND port of the sender")
field("hello.dst_port", u16, "ND port of the receiver")
field("hello.features", u32, "Features", base.HEX)
field("hello.min_version", u8, "Lowest version")
field("hello.max_version", u8, "Highest version")
field("hello.udp_port", u16, "UDP port that the sender receives on")
field("hello.ird", u16, "Inbound read limit")
field("hello.ord", u16, "Outbound read limit")
field("hello.window", u32, "Window (bytes of packets held behind a gap)")
field("hello.max_packet", u32, "Largest ND packet")
field("item", none, "Item")
field("item.type", u16, "Type", base.HEX)
field("item.length", u16, "Length")
field("item.unknown", bytes, "Value of an unknown type")
field("item.padding", bytes, "Padding")
field("reset_token", bytes, "Reset token")
field("cookie", bytes, "Cookie")
field("private", bytes, "Private data")
field("bulk_port", u16, "UDP port of the bulk lane")

field("rej.reason", u16, "Reason", base.DEC, REJECTS)
field("rej.private_length", u16, "Private data length")
field("shake.level", u8, "Level", base.DEC, { [0] = "initial", [2] = "handshake" })
field("shake.zero", u8, "Zero", base.HEX)
field("shake.have_initial", u16, "Bytes of level 0 received")
field("shake.have_handshake", u16, "Bytes of level 2 received")
field("shake.offset", u16, "Offset of the bytes in their level")
field("shake.total", u16, "Bytes that the level has so far")
field("shake.bytes", bytes, "Bytes of the TLS handshake")
field("rst.conn_id", u64, "Offending connection id", base.HEX)
field("rst.number", u32, "Offending packet number")
field("rst.zero", u32, "Zero", base.HEX)
for _, one in pairs(f) do table.insert(ndxdp.fields, one) end

local e = {
	malformed = ProtoExpert.new("ndxdp.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
	unknown = ProtoExpert.new("ndxdp.unknown", "Unknown", expert.group.UNDECODED, expert.severity.ERROR),
	crc = ProtoExpert.new("ndxdp.crc.bad", "The CRC32C is wrong", expert.group.CHECKSUM, expert.severity.ERROR),
	padding = ProtoExpert.new("ndxdp.padding", "Padding is not zero", expert.group.PROTOCOL, expert.severity.WARN),
	cut = ProtoExpert.new("ndxdp.cut", "The capture has not the whole packet", expert.group.UNDECODED, expert.severity.NOTE),
	term = ProtoExpert.new("ndxdp.term", "The connection ends for an error", expert.group.RESPONSE_CODE, expert.severity.WARN),
	rnr = ProtoExpert.new("ndxdp.rnr", "No receive for a SEND", expert.group.SEQUENCE, expert.severity.NOTE),
}
ndxdp.experts = { e.malformed, e.unknown, e.crc, e.padding, e.cut, e.term, e.rnr }

-- CRC32C (PROTOCOL 3.4): Castagnoli, reflected, by a table of bytes. Libraries for bits differ between versions of Lua, and one of
-- them gives negative numbers: the result is brought into range at the end.

local band, bxor, rshift
do
	local lib = bit32 or bit
	band, bxor, rshift = lib.band, lib.bxor, lib.rshift
end

local crc_table = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do
		if c % 2 == 1 then c = bxor(rshift(c, 1), 0x82f63b78) else c = rshift(c, 1) end
	end
	crc_table[i] = c
end

local function crc_add(crc, s)
	for at = 1, #s, 64 do
		for _, b in ipairs({ s:byte(at, at + 63) }) do
			crc = bxor(crc_table[band(bxor(crc, b), 0xff)], rshift(crc, 8))
		end
	end
	return crc
end

-- unknown_bits says whether a difference between two checksums comes from bits of the full numbers which a packet does not have: numbers of packets
-- below 2^40, and of messages. size is how many bytes the checksum covers behind the full numbers. Each bit changes the checksum in its own way, and
-- these changes add up, so this is elimination over 32 bits.
local function unknown_bits(difference, size, control)
	local basis = {}
	local function reduce(v)
		for bit = 31, 0, -1 do
			if math.floor(v / 2 ^ bit) % 2 == 1 then
				if not basis[bit] then return v, bit end
				v = bxor(v, basis[bit]) % 0x100000000
			end
		end
		return 0
	end
	local zeros = string.rep("\0", 11 + size)
	for _, at in ipairs(control and { 3 } or { 3, 8, 9 }) do
		for bit = 0, 7 do
			local change = crc_add(crc_add(0, string.char(2 ^ bit)), zeros:sub(at + 1))
			local rest, top = reduce(change % 0x100000000)
			if top then basis[top] = rest end
		end
	end
	return reduce(difference) == 0
end

-- verify_crc says whether the checksum of a packet is right, and what it should be where the full numbers are what the packet says; or nil when that cannot
-- be known. The upper bits of the numbers (PROTOCOL 3.1) are not in the packet: a checksum that is right for some of them is taken for right.
local function verify_crc(tvb)
	if tvb:len() < tvb:reported_len() or tvb:len() < BASE then return nil end
	local numbers = "\0\0\0\0" .. tvb:raw(4, 4) .. "\0\0" .. tvb:raw(2, 2)
	local crc = crc_add(crc_add(0xffffffff, numbers), tvb:raw(0, 20))
	if tvb:len() > BASE then crc = crc_add(crc, tvb:raw(BASE)) end
	local want, got = bxor(crc, 0xffffffff) % 0x100000000, tvb(20, 4):uint()
	local control = tvb(0, 1):uint() % 16 == T_CONTROL
	return want == got or unknown_bits(bxor(want, got) % 0x100000000, tvb:len() - 4, control), want
end

-- A walk over the packet that is being dissected: it takes bytes from the front, and remembers what is wrong.

local walk = {}
walk.__index = walk

local function walk_over(tvb, tree)
	return setmetatable({ tvb = tvb, tree = tree, at = 0, size = tvb:reported_len(), info = {} }, walk)
end

function walk:left() return self.size - self.at end

-- bad says that the packet has a form that a receiver drops.
function walk:bad(tree, text) tree:add_proto_expert_info(e.malformed, text) end

-- seen says that the capture holds the next n bytes; they are in the packet.
function walk:seen(n)
	if self.at + n <= self.tvb:len() then return true end
	if not self.cut then
		self.cut = true
		self.tree:add_proto_expert_info(e.cut)
	end
	return false
end

-- take adds a number of n bytes and returns it and its tree item.
function walk:take(tree, name, n)
	local range = self.tvb(self.at, n)
	self.at = self.at + n
	local item = tree:add(f[name], range)
	if n == 8 then return range:uint64(), item end
	return range:uint(), item
end

-- zero takes a number that has to be zero.
function walk:zero(tree, name, n)
	local value, item = self:take(tree, name, n)
	if value ~= 0 then self:bad(item, "A reserved field is not zero") end
end

-- data adds n bytes as far as they were captured.
function walk:data(tree, name, n)
	local there = math.min(n, self.tvb:len() - self.at)
	local item
	if there > 0 then item = tree:add(f[name], self.tvb(self.at, there)) end
	if there < n then self:seen(n) end
	self.at = self.at + n
	return item
end

-- all_zero says that the next n bytes are zero, as far as they were captured.
function walk:all_zero(n)
	local there = math.min(n, self.tvb:len() - self.at)
	return there <= 0 or not self.tvb:raw(self.at, there):find("[^\0]")
end

function walk:say(text) table.insert(self.info, text) end

-- Contents (PROTOCOL 3.1, 4). Each reader takes what is behind the first four bytes of an operation header. The length of the header was
-- checked.

local function op_flags(w, tree, range, allowed)
	local value = range:uint()
	local sub = tree:add(f["op.flags"], range)
	sub:add(f["op.flags.last"], range)
	sub:add(f["op.flags.solicit"], range)
	local bad = value ~= 0 and value ~= 2 and value ~= 4 and value ~= 6
	if allowed ~= "send" and has(value, 4) or allowed == "last" and value ~= 2 then bad = true end
	if bad then w:bad(sub, "Operation flags that this operation may not have") end
	return has(value, 2)
end

-- total takes the length of a message that begins, and compares it with the first piece.
local function total(w, tree, length, last)
	local value, item = w:take(tree, "op.total", 4)
	if length > value or last ~= (length == value) then w:bad(item, "LAST disagrees with the lengths") end
end

local function op_write(w, tree, length, last)
	w:take(tree, "op.token", 4)
	w:take(tree, "op.address", 8)
	if not last then total(w, tree, length, last) end
end

local function op_send(third)
	return function(w, tree, length, last)
		w:take(tree, "op.number", 4)
		total(w, tree, length, last)
		if third then w:take(tree, third, 4) else w:zero(tree, "op.zero", 4) end
	end
end

local function op_read_req(w, tree)
	w:take(tree, "op.token", 4)
	w:take(tree, "op.address", 8)
	w:take(tree, "op.read_length", 4)
	w:take(tree, "op.number", 4)
end

local function op_term(w, tree)
	local reason, item = w:take(tree, "op.reason", 2)
	item:add_proto_expert_info(e.term, "The connection ends: " .. (TERMS[reason] or reason))
	w:take(tree, "op.failed_code", 1)
	w:zero(tree, "op.zero", 1)
	w:take(tree, "op.number", 4)
end

-- What each operation is: its space (MORE travels in both), which flags it may have, the length of its header with LAST and
-- without, the reader of what is behind the first four bytes, and whether it has payload.
local OPERATION = {
	[0x01] = { response = false, flags = "piece", last = 16, open = 20, read = op_write, payload = true },
	[0x02] = { response = false, flags = "send", last = 16, open = 16, read = op_send(nil), payload = true },
	[0x03] = { response = false, flags = "send", last = 16, open = 16, read = op_send("op.invalidate"), payload = true },
	[0x04] = { response = false, flags = "send", last = 16, open = 16, read = op_send("op.immediate"), payload = true },
	[0x05] = { response = false, flags = "last", last = 24, open = 24, read = op_read_req },
	[0x06] = { response = true, flags = "piece", last = 8, open = 8, read = total, payload = true },
	[0x07] = { response = true, flags = "last", last = 12, open = 12, read = op_term },
	[0x08] = { flags = "piece", last = 4, open = 4, read = function() end, payload = true },
}

-- place_of judges where an operation stands: one that begins a message at its first byte, MORE behind it and first in its packet, TERM
-- anywhere. place.inside says that the message is one that began before.
local function place_of(w, item, code, name, place)
	if code == TERM then return end
	if (code == MORE) ~= place.inside then
		w:bad(item, name .. (place.inside and " inside of a message" or " at the beginning of a message"))
	elseif code == MORE and not place.first then
		w:bad(item, "MORE that is not the first of its packet")
	end
end

-- operation reads one operation at a place, and moves the place behind it. It returns false when the next one cannot be found.
local function operation(w, response, place)
	if w:left() < OP_HEADER then
		w:bad(w.tree, "No room for an operation header")
		return false
	end
	if not w:seen(OP_HEADER) then return false end
	local start = w.at
	local head = w.tvb(start, OP_HEADER)
	local code, length = head(0, 1):uint(), head(2, 2):uint()
	local name = OPS[code] or string.format("opcode 0x%02x", code)
	local tree = w.tree:add(f.op, head)
	tree:set_text(string.format("Operation: %s, %d bytes", name, length))
	w:say(name)
	local item = tree:add(f["op.code"], head(0, 1))
	local kind = OPERATION[code]
	if not kind then
		item:add_proto_expert_info(e.unknown, "Unknown operation")
		return false
	end
	if kind.response ~= nil and kind.response ~= response then w:bad(item, name .. " does not travel in this space") end
	local last = op_flags(w, tree, head(1, 1), kind.flags)
	local length_item = tree:add(f["op.length"], head(2, 2))
	tree:add(f["op.message"], place.message):set_generated()
	place_of(w, item, code, name, place)
	if length > 0 and not kind.payload then w:bad(length_item, name .. " with a payload") end
	if length == 0 and not last and kind.payload then w:bad(length_item, "Nothing, of a message that goes on") end
	if length == 0 and code == MORE then w:bad(length_item, "MORE of nothing") end
	local header = last and kind.last or kind.open
	if w:left() < header + length then
		w:bad(tree, "The operation ends behind the packet")
		return false
	end
	if not w:seen(header) then return false end
	w.at = start + OP_HEADER
	kind.read(w, tree, length, last)
	if length > 0 then w:data(tree, "op.payload", length) end
	place.first, place.inside = false, not last
	if last then place.message = (place.message + 1) % 0x10000 end
	return true
end

local function operations(w, response, message, offset)
	local start = w.at
	local place = { message = message, inside = offset > 0, first = true }
	repeat
		local pad = round8(w.at - start) - (w.at - start)
		if pad > 0 then
			if w:left() < pad then return w:bad(w.tree, "The padding ends behind the packet") end
			local clean = w:all_zero(pad)
			local item = w:data(w.tree, "op.padding", pad)
			if item and not clean then item:add_proto_expert_info(e.padding) end
		end
		if not operation(w, response, place) then return end
	until w:left() == 0
end

-- piece reads a packet that is one piece of a message: payload, and nothing else.
local function piece(w)
	if w:left() == 0 then return w:bad(w.tree, "A piece of nothing") end
	w:say(string.format("piece of %d bytes", w:left()))
	w:data(w.tree, "piece", w:left())
end

-- Control messages (PROTOCOL 5, 7.1). Each reader takes a body of a length that was checked.

local function body_nonce(w, tree) w:take(tree, "nonce", 4) end

local function body_ping(w, tree)
	w:take(tree, "nonce", 4)
	w:take(tree, "ping.udp_port", 2)
	w:zero(tree, "ping.zero", 2)
end

local function body_challenge(w, tree) w:take(tree, "challenge", 8) end

local function body_probe(w, tree)
	w:take(tree, "nonce", 4)
	local size = w:take(tree, "probe.size", 2)
	w:zero(tree, "probe.zero", 2)
	w:say("size " .. size)
	return size
end

-- Ports that handshakes named, beside that of the preferences: what is cut off has no checksum to be known by.
local ports, named = DissectorTable.get("udp.port"), {}

local function name_port(port)
	if port < 1024 or named[port] or port == ndxdp.prefs.port then return end
	named[port] = true
	ports:add(port, ndxdp)
end

-- What each item is: its name, its shortest and its longest value, and the field that holds it.
local ITEM = {
	[1] = { "cookie", 16, 16, "cookie" },
	[2] = { "private data", 1, MAX_PRIVATE, "private" },
	[3] = { "bulk port", 2, 2 },
	[4] = { "ClientHello", 5, 65535 },
}

-- handshake_bytes takes n bytes of a TLS handshake, with their offset and the number of bytes that there are (PROTOCOL 10.2).
local function handshake_bytes(w, tree, n)
	local offset = w:take(tree, "shake.offset", 2)
	local all, item = w:take(tree, "shake.total", 2)
	if offset + n > all or n == 0 and all > 0 then w:bad(item, "Bytes behind the end of their level") end
	if n > 0 then w:data(tree, "shake.bytes", n) end
	w:say(string.format("TLS %d+%d of %d", offset, n, all))
end

-- one_item takes an item of a REQ or REP (PROTOCOL 7.1), and returns its type, or nil when the next one cannot be found.
local function one_item(w, tree, stop, last)
	if stop - w.at < 4 then return w:bad(tree, "No room for the header of an item") end
	if not w:seen(4) then return end
	local sub = tree:add(f.item, w.tvb(w.at, 4))
	local kind, kind_item = w:take(sub, "item.type", 2)
	local length, length_item = w:take(sub, "item.length", 2)
	local known = ITEM[kind] or { "unknown", 0, 65535, "item.unknown" }
	sub:set_text(string.format("Item: %s, %d bytes", known[1], length))
	if kind <= last then w:bad(kind_item, "Items are not in ascending order, or one is there twice") end
	local pad = -length % 4
	if length + pad > stop - w.at then return w:bad(length_item, "The item ends behind the message") end
	local right = length >= known[2] and length <= known[3]
	if not right then w:bad(length_item, "A length that this item has not") end
	if kind == 3 and right then
		if not w:seen(length) then return end
		name_port((w:take(sub, "bulk_port", 2)))
	elseif kind == 4 and right then
		if not w:seen(4) then return end
		handshake_bytes(w, sub, length - 4)
	elseif length > 0 then
		w:data(sub, right and known[4] or "item.unknown", length)
	end
	if pad > 0 then
		if not w:all_zero(pad) then w:bad(sub, "Padding that is not zero") end
		w:data(sub, "item.padding", pad)
	end
	if kind == 1 then w:say("with cookie") end
	return kind
end

local function items(w, tree, stop)
	local last = 0
	while last and w.at < stop do last = one_item(w, tree, stop, last) end
end

local function body_hello(w, tree, length)
	local id, item = w:take(tree, "hello.conn_id", 8)
	if id == UInt64(0) then w:bad(item, "A connection id of zero") end
	w:take(tree, "hello.nonce", 8)
	local from = w:take(tree, "hello.src_port", 2)
	local to = w:take(tree, "hello.dst_port", 2)
	w:say(string.format("port %d to %d", from, to))
	w:take(tree, "hello.features", 4)
	w:take(tree, "hello.min_version", 1)
	w:take(tree, "hello.max_version", 1)
	name_port((w:take(tree, "hello.udp_port", 2)))
	w:take(tree, "hello.ird", 2)
	w:take(tree, "hello.ord", 2)
	w:take(tree, "hello.window", 4)
	w:take(tree, "hello.max_packet", 4)
	w:take(tree, "limit", 4)
	w:data(tree, "reset_token", 16)
	items(w, tree, w.at + length - HELLO)
end

local function body_retry(w, tree) w:data(tree, "cookie", 16) end

local function body_rtu(w, tree) w:take(tree, "limit", 4) end

local function body_rej(w, tree, length)
	local reason = w:take(tree, "rej.reason", 2)
	w:say("(" .. (REJECTS[reason] or reason) .. ")")
	local private, item = w:take(tree, "rej.private_length", 2)
	if private > MAX_PRIVATE or length ~= 4 + private then
		return w:bad(item, "Private data of another length than the body")
	end
	if private > 0 then w:data(tree, "private", private) end
end

local function body_rst(w, tree)
	w:take(tree, "rst.conn_id", 8)
	w:take(tree, "rst.number", 4)
	w:zero(tree, "rst.zero", 4)
	w:data(tree, "reset_token", 16)
end

local function body_shake(w, tree, length)
	local id, id_item = w:take(tree, "hello.conn_id", 8)
	if id == UInt64(0) then w:bad(id_item, "A connection id of zero") end
	w:take(tree, "hello.nonce", 8)
	local port, port_item = w:take(tree, "hello.udp_port", 2)
	if port == 0 then w:bad(port_item, "A UDP port of zero") end
	name_port(port)
	local level, level_item = w:take(tree, "shake.level", 1)
	if level ~= 0 and level ~= 2 then w:bad(level_item, "A level that SHAKE has not") end
	w:zero(tree, "shake.zero", 1)
	w:take(tree, "shake.have_initial", 2)
	w:take(tree, "shake.have_handshake", 2)
	handshake_bytes(w, tree, length - SHAKE)
end

local HELLO_MAX = MIN_REQ - BASE - ACK - CONTROL_HEADER

-- What each control message is: its shortest and longest body, the reader of the body, and whether padding may follow.
local CONTROL = {
	[0x11] = { 8, 8, body_ping, padded = true },
	[0x12] = { 4, 4, body_nonce },
	[0x13] = { 8, 8, body_probe, padded = true },
	[0x14] = { 8, 8, body_probe },
	[0x15] = { 8, 8, body_challenge },
	[0x16] = { 8, 8, body_challenge },
	[0x20] = { HELLO, HELLO_MAX, body_hello, padded = true },
	[0x21] = { 16, 16, body_retry },
	[0x22] = { 0, 0 },
	[0x23] = { HELLO, HELLO_MAX, body_hello },
	[0x24] = { 0, 0 },
	[0x25] = { 4, 4, body_rtu, padded = true },
	[0x26] = { 4, 4 + MAX_PRIVATE, body_rej },
	[0x27] = { 0, 0, padded = true },
	[0x28] = { 0, 0 },
	[0x29] = { 32, 32, body_rst },
	[0x2a] = { SHAKE, SHAKE + MAX_SHAKE, body_shake },
}

-- behind_body judges what follows the body of a control message.
local function behind_body(w, tree, code, size)
	if code == 0x20 and w.size < MIN_REQ then w:bad(tree, "REQ is not padded to 1200 bytes") end
	if code == 0x13 and size ~= w.size then w:bad(tree, "PROBE has another size than it says") end
	if w:left() == 0 then return end
	if not CONTROL[code].padded then w:bad(tree, "Bytes behind the body") end
	if not w:all_zero(w:left()) then w:bad(tree, "Padding that is not zero") end
	w:data(tree, "ctl.padding", w:left())
end

local function control(w)
	if w:left() < CONTROL_HEADER then return w:bad(w.tree, "No room for a control header") end
	if not w:seen(CONTROL_HEADER) then return end
	local bare = w.at == BASE
	local tree = w.tree:add(f.ctl, w.tvb(w.at))
	local code, item = w:take(tree, "ctl.code", 1)
	local name = CONTROLS[code] or string.format("opcode 0x%02x", code)
	tree:set_text("Control message: " .. name)
	w:say(name)
	local flags, sub = w:take(tree, "ctl.flags", 1)
	sub:add(f["ctl.flags.abort"], w.tvb(w.at - 1, 1))
	local length, length_item = w:take(tree, "ctl.length", 2)
	local kind = CONTROL[code]
	if not kind then return item:add_proto_expert_info(e.unknown, "Unknown control message") end
	if flags ~= 0 and not (code == 0x27 and flags == 1) then w:bad(sub, "Flags that this message has not") end
	if code == 0x27 and flags == 1 then w:say("(abort)") end
	if length > w:left() then return w:bad(length_item, "The body ends behind the packet") end
	if length < kind[1] or length > kind[2] then return w:bad(length_item, "A length that this body has not") end
	if code == 0x20 and not bare then w:bad(item, "REQ with a block") end
	local start, size = w.at, nil
	if kind[3] then
		if not w:seen(math.min(length, kind[1])) then return end
		size = kind[3](w, tree, length)
	end
	w.at = start + length
	behind_body(w, tree, code, size)
end

-- Blocks (PROTOCOL 3.5, 3.6). Each reader returns false when what follows cannot be found.

local function range(w, tree, high, length)
	local low = high - length
	tree:add(f["ack.high"], high % 0x100000000):set_generated()
	tree:add(f["ack.low"], low % 0x100000000):set_generated()
	return low
end

local function ack_block(w)
	if w:left() < ACK then
		w:bad(w.tree, "No room for an ACK block")
		return false
	end
	if not w:seen(ACK) then return false end
	local tree = w.tree:add(f.ack, w.tvb(w.at, ACK))
	local largest = w:take(tree, "ack.largest", 4)
	w:take(tree, "ack.delay", 2)
	local further, further_item = w:take(tree, "ack.further", 1)
	local flags, sub = w:take(tree, "ack.flags", 1)
	sub:add(f["ack.flags.ce"], w.tvb(w.at - 1, 1))
	sub:add(f["ack.flags.away"], w.tvb(w.at - 1, 1))
	if flags > 3 then w:bad(sub, "Flags that an ACK block has not") end
	if further > MAX_FURTHER then
		w:bad(further_item, "More ranges than an ACK block has")
		return false
	end
	if w:left() < 4 + further * RANGE then
		w:bad(tree, "The ranges end behind the packet")
		return false
	end
	if not w:seen(4 + further * RANGE) then return false end
	local low = range(w, tree, largest, (w:take(tree, "ack.length", 4)))
	for _ = 1, further do
		local gap = w:take(tree, "ack.gap", 4)
		low = range(w, tree, low - gap - 2, (w:take(tree, "ack.length", 4)))
	end
	if largest - low >= 0x80000000 then w:bad(tree, "Ranges that reach too far") end
	w:say("ack " .. largest)
	return true
end

local function report_block(w)
	if w:left() < REPORT then
		w:bad(w.tree, "No room for a REPORT block")
		return false
	end
	if not w:seen(REPORT) then return false end
	local tree = w.tree:add(f.report, w.tvb(w.at, REPORT))
	w:take(tree, "limit", 4)
	local offset = w:take(tree, "report.offset", 4)
	local up_to = w:take(tree, "report.up_to", 4)
	w:take(tree, "report.load", 1)
	local flags, sub = w:take(tree, "report.flags", 1)
	sub:add(f["report.flags.rnr"], w.tvb(w.at - 1, 1))
	sub:add(f["report.flags.taken_back"], w.tvb(w.at - 1, 1))
	if flags > 3 then w:bad(sub, "Flags that a REPORT block has not") end
	local message = w:take(tree, "report.message", 2)
	if not has(flags, 2) and (has(flags, 1) or message ~= 0 or offset ~= 0 or up_to ~= 0) then
		w:bad(sub, "A place, and nothing was taken back")
	end
	if has(flags, 1) then
		sub:add_proto_expert_info(e.rnr)
		w:say("RNR")
	end
	w:take(tree, "report.ce_count", 4)
	return true
end

-- The base header (PROTOCOL 3).

local FLAGS = { "ackreq", "space", "ack", "report", "end", "secure", "long" }

local function base_flags(w, tree)
	local range = w.tvb(w.at, 1)
	local value, item = w:take(tree, "flags", 1)
	for i, name in ipairs(FLAGS) do
		item:add(f["flags." .. name], range)
		if has(value, 2 ^ (i - 1)) then item:append_text(" " .. name:upper()) end
	end
	if value >= 0x80 then w:bad(item, "Flags that version 3 has not") end
	return value, item
end

local function base_header(w, tree)
	local version, item = w:take(tree, "version", 1)
	local kind = version % 16
	tree:add(f.type, w.tvb(0, 1))
	if math.floor(version / 16) ~= 3 then item:add_proto_expert_info(e.unknown, "Another version than 3") end
	local flags, flags_item = base_flags(w, tree)
	local secure = has(flags, SECURE)
	local message, message_item = w:take(tree, secure and kind == T_CONTROL and "from_port" or "message", 2)
	local number = w:take(tree, "number", 4)
	w:take(tree, "conn_id", 8)
	local offset, offset_item = w:take(tree, "offset", 4)
	local generation, crc_item = w:take(tree, secure and "generation" or "crc", 4)
	if ndxdp.prefs.crc and not secure then
		local good, want = verify_crc(w.tvb)
		if want then
			tree:add(f["crc.good"], w.tvb(20, 4), good):set_generated()
			if not good then crc_item:add_proto_expert_info(e.crc, string.format("The CRC32C should be 0x%08x", want)) end
		end
	end
	if kind > T_PIECE then w:bad(item, "A type that version 3 has not") end
	if kind == T_CONTROL and (message ~= 0 and not secure or offset ~= 0) then w:bad(message_item, "A control packet with a place") end
	if kind == T_CONTROL and has(flags, 0x02) then w:bad(flags_item, "A control packet with SPACE") end
	if kind < T_PIECE and has(flags, 0x10) then w:bad(flags_item, "END in a packet that is no piece") end
	if kind == T_PIECE and offset == 0 then w:bad(offset_item, "A piece at the beginning of its message") end
	return { kind = kind, flags = flags, number = number, message = message, offset = offset, generation = generation }
end

-- sealed takes what is behind the header of a sealed packet (PROTOCOL 10.1).
local function sealed(w, h)
	if w:left() < TAG then return w:bad(w.tree, "No room for a tag") end
	if w:left() > TAG then w:data(w.tree, "sealed", w:left() - TAG) end
	w:data(w.tree, "tag", TAG)
	w:say("sealed, generation " .. h.generation)
end

-- summary puts operations of the same name together.
local function summary(names)
	local out, i = {}, 1
	while i <= #names do
		local n = 1
		while names[i + n] == names[i] do n = n + 1 end
		table.insert(out, n > 1 and string.format("%s x%d", names[i], n) or names[i])
		i = i + n
	end
	return table.concat(out, " ")
end

function ndxdp.dissector(tvb, pinfo, root)
	if tvb:reported_len() == 0 then return 0 end
	pinfo.cols.protocol = "NDXDP"
	local tree = root:add(ndxdp, tvb())
	local w = walk_over(tvb, tree)
	if w.size < BASE then
		w:bad(tree, "Shorter than a base header")
		pinfo.cols.info = "short"
		return tvb:len()
	end
	if not w:seen(BASE) then return tvb:len() end
	local h = base_header(w, tree)
	local response, where = has(h.flags, 0x02), string.format("#%d ", h.number)
	if h.kind ~= T_CONTROL then
		where = string.format("#%d %s message %d+%d: ", h.number, response and "response" or "request", h.message, h.offset)
	end
	local known = tvb(0, 1):bitfield(0, 4) == 3 -- nothing is known of another version
	if known and has(h.flags, SECURE) then
		sealed(w, h)
		known = false -- what is inside
	end
	if known and has(h.flags, 0x04) then known = ack_block(w) end
	if known and has(h.flags, 0x08) then known = report_block(w) end
	if known then
		if h.kind == T_OPERATIONS then
			operations(w, response, h.message, h.offset)
		elseif h.kind == T_PIECE then
			piece(w)
		elseif h.kind == T_CONTROL and (w:left() > 0 or w.at == BASE) then
			control(w)
		end
	end
	local text = where .. summary(w.info)
	tree:append_text(", " .. text)
	pinfo.cols.info = text
	return tvb:len()
end

-- likely says that a datagram on any port is an ND packet: by its first bytes, and by its checksum. A sealed packet has none: its port is known
-- from the handshake.
local function likely(tvb, pinfo, root)
	if tvb:len() <= BASE or math.floor(tvb(0, 1):uint() / 16) ~= 3 or tvb(0, 1):uint() % 16 > T_PIECE then return false end
	if tvb(1, 1):uint() >= 0x20 then return false end
	if not verify_crc(tvb) then return false end
	ndxdp.dissector(tvb, pinfo, root)
	pinfo.conversation = ndxdp
	return true
end

ndxdp:register_heuristic("udp", likely)

local registered

local function register()
	if registered == ndxdp.prefs.port then return end
	if registered then ports:remove(registered, ndxdp) end
	registered = ndxdp.prefs.port
	ports:add(registered, ndxdp) -- which also offers Decode As
end

function ndxdp.prefs_changed() register() end

function ndxdp.init() -- before a file is read
	for port in pairs(named) do ports:remove(port, ndxdp) end
	named = {}
end

register()
