# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A runner whose switches forward nothing: they hold their gRPC ports and answer Capabilities."""

import sys

from topologies.model import Switch
from topologies.runners import Runner, SwitchProcess

PROGRAM = """
import grpc, signal, sys
from concurrent import futures

class Answers(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

server = grpc.server(futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((Answers(),))
for address in sys.argv[1:]:
    server.add_insecure_port(address)
server.start()
print("holding", len(sys.argv) - 1, flush=True)
signal.sigwait([signal.SIGTERM])
server.stop(0)
"""


class HoldingRunner(Runner):
    target = "holding"
    has_kernel_queues = True
    program = PROGRAM

    def check(self) -> None:
        pass

    def start(self) -> None:
        for group in [(switch,) for switch in self.fabric.switches] if self.run.isolated else [self.fabric.switches]:
            self._start(group)

    def start_one(self, switch: Switch) -> SwitchProcess:
        return self._start((switch,))

    def _start(self, group: tuple[Switch, ...]) -> SwitchProcess:
        addresses = [switch.grpc_address for switch in group]
        command = [sys.executable, "-c", self.program, *addresses]
        return self.launch([switch.name for switch in group], command, self.log_of(group[0].name))


class DyingRunner(HoldingRunner):
    target = "dying"
    program = "raise SystemExit('the wheels came off')"
