# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow: the optimiser is wrapped, `fit` stays as it is."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported

import keras
import tensorflow as tf

import gradlane.tensorflow
from traffic.examples.digits import BATCH, Digits, errors_in_one_line

EPOCHS = 5


def main() -> None:
    """Train, and say how well."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    optimizer = gradlane.tensorflow.distributed(keras.optimizers.SGD(0.1, momentum=0.9))
    exchange = optimizer.exchange
    model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    digits = Digits.of(exchange.communicator.rank, exchange.communicator.size)
    model.fit(digits.images, digits.labels, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    accuracy = digits.accuracy(model.predict(digits.test_images, verbose=0))
    print(f"rank {exchange.communicator.rank}: accuracy {accuracy:.1%}")
    exchange.close()


if __name__ == "__main__":
    with errors_in_one_line():
        main()
