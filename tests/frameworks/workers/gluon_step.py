# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A linear classifier under Gluon: `gluon_step.py FOLDER ROUNDS trainer|store [kill]`, which kills rank 1 early."""

import os
import signal
import sys
from typing import Any

import mxnet as mx
from mxnet import gluon
from reference import BATCH, CLASSES, INPUTS, RATE, batch, save

import gradlane.mxnet


def values(network: Any) -> tuple[Any, Any]:
    """Return weights, (inputs, classes), and bias."""
    return network.weight.data().asnumpy().T, network.bias.data().asnumpy()


def main() -> None:
    """Train, save."""
    folder, rounds, kind, *kill = sys.argv[1:]
    rank = int(os.environ["RANK"])
    mx.random.seed(rank)
    network = gluon.nn.Dense(CLASSES, in_units=INPUTS)
    network.initialize(mx.init.Xavier())
    options = {"learning_rate": RATE}
    if kind == "trainer":
        trainer = gradlane.mxnet.Trainer(network.collect_params(), "sgd", options)
    else:
        trainer = gluon.Trainer(network.collect_params(), "sgd", options, kvstore="dist_gradlane")
    trainer._init_kvstore()
    trainer._init_params()
    begun = values(network)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for number in range(int(rounds)):
        images, labels = map(mx.nd.array, batch(rank, number))
        with mx.autograd.record():
            loss = loss_of(network(images), labels)
        loss.backward()
        if kill and rank == 1 and number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        trainer.step(BATCH)
    save(folder, rank, begun, values(network))
    sent = trainer._kvstore.communicator.statistics
    print(f"rank {rank} lost {sent.lost_values} of {sent.values} values")


if __name__ == "__main__":
    main()
