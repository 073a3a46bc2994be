# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""MXNet's Gluon: the trainer's key-value store is Gradlane."""

import mxnet as mx
from mxnet import gluon

import gradlane.mxnet
from traffic.examples.digits import BATCH, Digits, errors_in_one_line

EPOCHS = 5


def main() -> None:
    """Train, and say how well."""
    mx.random.seed(0)
    network = gluon.nn.Sequential()
    network.add(gluon.nn.Dense(256, activation="relu"), gluon.nn.Dense(256, activation="relu"), gluon.nn.Dense(10))
    network.initialize(mx.init.Xavier())
    options = {"learning_rate": 0.1, "momentum": 0.9}
    trainer = gradlane.mxnet.Trainer(network.collect_params(), "sgd", options)
    communicator = trainer.store.communicator
    digits = Digits.of(communicator.rank, communicator.size)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for images, labels in digits.batches(EPOCHS):
        with mx.autograd.record():
            loss = loss_of(network(mx.nd.array(images)), mx.nd.array(labels))
        loss.backward()
        trainer.step(BATCH)
    accuracy = digits.accuracy(network(mx.nd.array(digits.test_images)).asnumpy())
    print(f"rank {communicator.rank}: accuracy {accuracy:.1%}")
    trainer.store.close()


if __name__ == "__main__":
    with errors_in_one_line():
        main()
