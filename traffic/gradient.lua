-- SPDX-FileCopyrightText: 2026 The Gradlane developers
-- SPDX-License-Identifier: Apache-2.0
--
-- Wireshark dissector of the gradient header: `wireshark -X lua_script:traffic/gradient.lua trace.pcap`, or copy it
-- into Wireshark's plugin folder. Filter with, for example, `gradient.layer == 0 && gradient.importance < 32`.

local GRADIENT_PORT = 18258
local GRADIENT_BYTES = 32

local types = {
    [1] = "DATA",
    [2] = "TRIMMED",
    [3] = "START",
    [4] = "FINISH",
    [5] = "STOP",
    [6] = "REQUEST",
    [7] = "ACK",
    [8] = "REPORT",
}

local data_types = {
    [0] = "FLOAT32",
    [1] = "FLOAT16",
    [2] = "BFLOAT16",
}

local flag_bits = {
    [0x01] = "RETRANSMISSION",
    [0x02] = "LAST",
    [0x04] = "PROTECTED",
}

-- name, kind, offset, length in bytes; mask and values where a field has them
local layout = {
    { "version", "uint8", 0, 1, mask = 0xf0 },
    { "type", "uint8", 0, 1, mask = 0x0f, values = types },
    { "flags", "uint8", 1, 1, base = base.HEX },
    { "data_type", "uint8", 2, 1, values = data_types },
    { "importance", "uint8", 3, 1 },
    { "job", "uint16", 4, 2 },
    { "rank", "uint16", 6, 2 },
    { "tensor", "uint16", 8, 2 },
    { "layer", "uint16", 10, 2 },
    { "round", "uint32", 12, 4 },
    { "offset", "uint32", 16, 4 },
    { "count", "uint16", 20, 2 },
    { "path", "uint8", 22, 1 },
    { "reserved", "uint8", 23, 1 },
    { "weight", "uint32", 24, 4 },
    { "sequence", "uint32", 28, 4 },
}

local gradient = Proto("gradient", "Gradient packet")
local values = ProtoField.bytes("gradient.values", "values")
local fields = { values }
for _, row in ipairs(layout) do
    local name, kind = row[1], row[2]
    row.field = ProtoField[kind]("gradient." .. name, name, row.base or base.DEC, row.values, row.mask)
    table.insert(fields, row.field)
end
gradient.fields = fields

local function names_of_flags(flags)
    local names = {}
    for bit_value, name in pairs(flag_bits) do
        if bit.band(flags, bit_value) ~= 0 then
            table.insert(names, name)
        end
    end
    table.sort(names)
    return #names > 0 and " (" .. table.concat(names, ", ") .. ")" or ""
end

function gradient.dissector(buffer, packet, tree)
    if buffer:len() < GRADIENT_BYTES then
        return 0
    end
    packet.cols.protocol = "Gradient"
    local kind = types[bit.band(buffer(0, 1):uint(), 0x0f)] or "unknown type"
    packet.cols.info = string.format(
        "%s job %d rank %d layer %d tensor %d round %d offset %d importance %d",
        kind, buffer(4, 2):uint(), buffer(6, 2):uint(), buffer(10, 2):uint(), buffer(8, 2):uint(),
        buffer(12, 4):uint(), buffer(16, 4):uint(), buffer(3, 1):uint())
    local branch = tree:add(gradient, buffer(), "Gradient, " .. kind)
    for _, row in ipairs(layout) do
        local item = branch:add(row.field, buffer(row[3], row[4]))
        if row[1] == "flags" then
            item:append_text(names_of_flags(buffer(1, 1):uint()))
        end
    end
    if buffer:len() > GRADIENT_BYTES then
        branch:add(values, buffer(GRADIENT_BYTES))
    end
    return buffer:len()
end

DissectorTable.get("udp.port"):add(GRADIENT_PORT, gradient)
