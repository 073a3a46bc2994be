// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Header stacks, unions and varbits: parsed by what the frame says, worked on, and written again.
#include <core.p4>
#include <v1model.p4>

header plan_t {
    bit<8> serial;
    bit<8> labels;      // labels that follow
    bit<8> choice;      // the member of the union that follows
    bit<8> options;     // bytes of the variable part
    bit<8> work;        // what ingress does with the stack
    bit<8> index;
    bit<8> error_seen;
    bit<8> found;
}
header label_t { bit<12> value; bit<3> rest; bit<1> bottom; }
header small_t { bit<8> x; }
header middle_t { bit<16> x; bit<8> y; }
header large_t { bit<32> x; bit<32> y; }
header options_t { bit<8> length; varbit<160> body; }
header after_t { bit<8> mark; bit<4> left; bit<4> right; }

header_union choice_t { small_t small; middle_t middle; large_t large; }

struct headers_t {
    plan_t     plan;
    label_t[4] labels;
    choice_t   choice;
    options_t  options;
    after_t    after;
    options_t  copy;
}
struct metadata_t { bit<8> left; bit<8> taken; bit<8> peeked; }

error { WrongChoice }

parser ShapesParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.plan);
        m.left = h.plan.labels;
        transition select(m.left) {
            0: choose;
            default: label;
        }
    }
    state label {
        packet.extract(h.labels.next);
        m.left = m.left - 1;
        m.taken = m.taken + 1;
        transition select(m.left, h.labels.last.bottom) {
            (0, _): choose;
            (_, 1): choose;
            default: label;
        }
    }
    state choose {
        verify(h.plan.choice < 5, error.WrongChoice);
        transition select(h.plan.choice) {
            1: take_small;
            2: take_middle;
            3: take_large;
            4: skip;
            default: variable;
        }
    }
    state take_small  { packet.extract(h.choice.small); transition variable; }
    state take_middle { packet.extract(h.choice.middle); transition variable; }
    state take_large  { packet.extract(h.choice.large); transition variable; }
    state skip {
        m.peeked = packet.lookahead<bit<8>>();
        packet.advance(16);
        transition variable;
    }
    state variable {
        transition select(h.plan.options) {
            0xff: accept;
            default: take_options;
        }
    }
    state take_options {
        packet.extract(h.options, (bit<32>)h.plan.options << 3);
        packet.extract(h.after);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control ShapesIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        if (s.parser_error == error.NoError) {
            h.plan.error_seen = 1;
        } else if (s.parser_error == error.PacketTooShort) {
            h.plan.error_seen = 2;
        } else if (s.parser_error == error.StackOutOfBounds) {
            h.plan.error_seen = 3;
        } else if (s.parser_error == error.WrongChoice) {
            h.plan.error_seen = 4;
        } else if (s.parser_error == error.HeaderTooShort) {
            h.plan.error_seen = 5;
        } else {
            h.plan.error_seen = 6;
        }
        h.plan.found = m.peeked;
        if (h.plan.work[0:0] == 1) {
            h.labels.push_front(1);
            h.labels[0].setValid();
            h.labels[0].value = 0xabc;
            h.labels[0].rest = 5;
            h.labels[0].bottom = 0;
        }
        if (h.plan.work[1:1] == 1) {
            h.labels.pop_front(2);
        }
        if (h.plan.work[2:2] == 1) {
            h.labels.push_front(3);
            h.labels[2].setValid();
            h.labels[2].value = 1;
            h.labels[2].rest = 0;
            h.labels[2].bottom = 1;
        }
        if (h.plan.work == 8 && h.plan.index < m.taken && m.taken > 1) {
            h.labels[h.plan.index].value = h.labels[1].value + 1;
            h.labels[1].rest = h.labels[h.plan.index].rest;
        }
        if (h.plan.work[4:4] == 1) {
            h.choice.middle.setValid();
            h.choice.middle.x = 0x1234;
            h.choice.middle.y = 0x56;
        }
        if (h.plan.work[5:5] == 1) {
            if (h.choice.small.isValid()) {
                h.choice.small.x = ~h.choice.small.x;
            } else if (h.choice.large.isValid()) {
                bit<32> held = h.choice.large.x;
                h.choice.large.x = h.choice.large.y;
                h.choice.large.y = held;
            }
        }
        if (h.plan.work[6:6] == 1) {
            h.choice.large.setInvalid();
        }
        if (h.plan.work[7:7] == 1 && h.options.isValid()) {
            h.copy = h.options;
            h.copy.length = 0xee;
        }
        if (h.labels[0].isValid() && h.labels[1].isValid() && h.labels[0] == h.labels[1]) {
            h.plan.found = h.plan.found ^ 0x80;
        }
    }
}

control ShapesEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }

control ShapesDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.plan);
        packet.emit(h.labels);
        packet.emit(h.choice);
        packet.emit(h.options);
        packet.emit(h.after);
        packet.emit(h.copy);
    }
}

V1Switch(ShapesParser(), NoVerify(), ShapesIngress(), ShapesEgress(), NoUpdate(), ShapesDeparser()) main;
