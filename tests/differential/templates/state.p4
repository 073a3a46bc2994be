// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Registers, counters, meters (direct and indirect) and digests.
#include <core.p4>
#include <v1model.p4>

const bit<32> CELLS = 8;

header state_t {
    bit<8>   serial;
    bit<8>   flow;
    bit<16>  index;
    bit<32>  value;
    bit<32>  before;
    bit<72>  wide_before;
    bit<8>   packet_colour;
    bit<8>   byte_colour;
    bit<8>   direct_colour;
    bit<8>   learn;
}

struct headers_t { state_t state; }
struct metadata_t { bit<2> colour; }
struct learned_t { bit<8> serial; bit<9> port; bit<32> value; bit<72> wide; bit<1> odd; }

parser StateParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.state);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control StateIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<32>>(CELLS) narrow;
    register<bit<72>>(CELLS) wide;
    counter(CELLS, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) flow_count;
    meter(CELLS, MeterType.packets) packet_meter;
    meter(CELLS, MeterType.bytes) byte_meter;
    direct_meter<bit<2>>(MeterType.packets) flow_meter;

    action counted(bit<9> port) {
        flow_count.count();
        s.egress_spec = port;
    }
    table count_table {
        key = { h.state.flow : exact; }
        actions = { counted; NoAction; }
        default_action = counted(3);
        counters = flow_count;
        size = 16;
    }
    action metered() { flow_meter.read(m.colour); }
    table meter_table {
        key = { h.state.flow : exact; }
        actions = { metered; NoAction; }
        default_action = NoAction();
        meters = flow_meter;
        size = 16;
    }

    apply {
        s.egress_spec = 2;
        bit<32> index = (bit<32>)h.state.index;
        count_table.apply();
        m.colour = 3;
        meter_table.apply();
        h.state.direct_colour = (bit<8>)m.colour;
        h.state.packet_colour = 9;
        // A BMv2 without assertions reads beyond its arrays' ends, and dies of an action with two register arrays.
        if (index < CELLS) {
            bit<32> held;
            narrow.read(held, index);
            h.state.before = held;
            narrow.write(index, held + h.state.value);
        }
        if (index < CELLS && h.state.flow < 200) {
            bit<72> wide_held;
            wide.read(wide_held, index);
            h.state.wide_before = wide_held;
            wide.write(index, wide_held << 5 ^ (bit<72>)h.state.value);
        }
        if (index < CELLS && h.state.flow < 201) {
            seen.count(index);
            bit<2> colour = 3;
            packet_meter.execute_meter(index, colour);
            h.state.packet_colour = (bit<8>)colour;
            colour = 3;
            byte_meter.execute_meter(index, colour);
            h.state.byte_colour = (bit<8>)colour;
        }
        if (h.state.learn == 1) {
            digest<learned_t>(1, { h.state.serial, s.ingress_port, h.state.value, h.state.wide_before,
                                   h.state.value[0:0] });
        }
    }
}

control StateEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control StateDeparser(packet_out packet, in headers_t h) { apply { packet.emit(h.state); } }

V1Switch(StateParser(), NoVerify(), StateIngress(), StateEgress(), NoUpdate(), StateDeparser()) main;
