# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A linear classifier trained by `fit`: `keras_fit.py FOLDER ROUNDS [kill]`; rank 1 is killed in its last round."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import signal
import sys

import keras
import numpy as np
import tensorflow as tf
from reference import BATCH, CLASSES, INPUTS, RATE, batch, save

import gradlane.tensorflow


class Killer(keras.callbacks.Callback):
    """Kills its process after three rounds."""

    def on_train_batch_end(self, number: int, logs: object = None) -> None:
        """Count rounds."""
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Train, save."""
    folder, rounds, *kill = sys.argv[1:]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rank = int(os.environ["RANK"])
    keras.utils.set_random_seed(rank)
    model = keras.Sequential([keras.layers.Input((INPUTS,)), keras.layers.Dense(CLASSES)])
    optimizer = gradlane.tensorflow.distributed(keras.optimizers.SGD(RATE))
    model.compile(optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    optimizer.build(model.trainable_variables)
    begun = model.get_weights()
    given = [batch(rank, number) for number in range(int(rounds))]
    images, labels = (np.concatenate(parts) for parts in zip(*given, strict=True))
    callbacks = [Killer()] if kill and rank == 1 else []
    model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)
    save(folder, rank, begun, model.get_weights())
    sent = optimizer.exchange.communicator.statistics
    print(f"rank {rank} lost {sent.lost_values} of {sent.values} values")
    optimizer.exchange.close()


if __name__ == "__main__":
    main()
