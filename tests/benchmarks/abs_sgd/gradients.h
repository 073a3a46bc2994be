/* SPDX-FileCopyrightText: 2026 The Gradlane developers */
/* SPDX-License-Identifier: Apache-2.0 */
/* The study's two networks as C: what traffic/model.py and traffic/convolution.py compute, for one image set.
 *
 * Weights are flat, every layer's matrix (inputs, outputs) and then its bias; images are of 196 floats. Functions return
 * -1 where memory is short.
 */
#ifndef GRADLANE_BENCH_GRADIENTS_H
#define GRADLANE_BENCH_GRADIENTS_H
#include <stdint.h>

/* Sum over `count` images, picked by `which`, of the gradients of cross-entropy; `sum` is of the weights' shape. */
int32_t mlp_gradient_sum(const float *weights, const float *images, const int64_t *labels, const int64_t *which,
                         int32_t count, float *sum);
int32_t cnn_gradient_sum(const float *weights, const float *images, const int64_t *labels, const int64_t *which,
                         int32_t count, float *sum);

/* How many of `count` images have their largest logit at their label. */
int32_t mlp_right(const float *weights, const float *images, const int64_t *labels, int32_t count);
int32_t cnn_right(const float *weights, const float *images, const int64_t *labels, int32_t count);
#endif
