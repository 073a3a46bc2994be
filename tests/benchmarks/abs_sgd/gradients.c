/* SPDX-FileCopyrightText: 2026 The Gradlane developers */
/* SPDX-License-Identifier: Apache-2.0 */
#include "gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 196, SIDE = 14, CLASSES = 10, LANES = 8, ROWS = 8, PADDED = 16 };
enum { HIDDEN1 = 64, HIDDEN2 = 32 };                                       /* of the multilayer perceptron */
enum { CHANNELS = 8, HALF = 7, PLACES = 49, AROUND = 9, TAPS = AROUND * CHANNELS, FLAT = PLACES * CHANNELS };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef float anywhere __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Not functions: how those return vectors depends on the machine they are compiled for. */
#define LOAD(from) (*(const anywhere *)(from))
#define STORE(to, value) (*(anywhere *)(to) = (value))

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) /* ROWS of them, in registers of their own */

/* out (rows, outs) = bias + in (rows, ins) * matrix (ins, outs), or out += without a bias; outs is a multiple of LANES. */
static void multiply(const float *in, int rows, int ins, const float *matrix, const float *bias, int outs, float *out) {
    for (int column = 0; column < outs; column += LANES) {
        int row = 0;
        for (; row + ROWS <= rows; row += ROWS) {
            const float *from = in + (size_t)row * ins;
            float *to = out + (size_t)row * outs + column;
#define BEGIN(k) lanes sum##k = LOAD(bias ? bias + column : to + (size_t)k * outs);
#define ADD(k) sum##k += from[(size_t)k * ins + i] * weight;
#define END(k) STORE(to + (size_t)k * outs, sum##k);
            EACH_ROW(BEGIN)
            for (int i = 0; i < ins; i++) {
                lanes weight = LOAD(matrix + (size_t)i * outs + column);
                EACH_ROW(ADD)
            }
            EACH_ROW(END)
#undef BEGIN
#undef ADD
#undef END
        }
        for (; row < rows; row++) {
            float *to = out + (size_t)row * outs + column;
            lanes sum = LOAD(bias ? bias + column : to);
            for (int i = 0; i < ins; i++) sum += in[(size_t)row * ins + i] * LOAD(matrix + (size_t)i * outs + column);
            STORE(to, sum);
        }
    }
}

/* sum (ins, outs) += in (rows, ins) transposed * error (rows, outs); outs is a multiple of LANES. */
static void outer(const float *in, const float *error, int rows, int ins, int outs, float *sum) {
    for (int column = 0; column < outs; column += LANES) {
        int i = 0;
        for (; i + ROWS <= ins; i += ROWS) {
            float *to = sum + (size_t)i * outs + column;
#define BEGIN(k) lanes part##k = LOAD(to + (size_t)k * outs);
#define ADD(k) part##k += from[k] * each;
#define END(k) STORE(to + (size_t)k * outs, part##k);
            EACH_ROW(BEGIN)
            for (int row = 0; row < rows; row++) {
                const float *from = in + (size_t)row * ins + i;
                lanes each = LOAD(error + (size_t)row * outs + column);
                EACH_ROW(ADD)
            }
            EACH_ROW(END)
#undef BEGIN
#undef ADD
#undef END
        }
        for (; i < ins; i++) {
            lanes part = LOAD(sum + (size_t)i * outs + column);
            for (int row = 0; row < rows; row++)
                part += in[(size_t)row * ins + i] * LOAD(error + (size_t)row * outs + column);
            STORE(sum + (size_t)i * outs + column, part);
        }
    }
}

static void add_rows(const float *error, int rows, int outs, float *sum) {
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < outs; column++) sum[column] += error[(size_t)row * outs + column];
}

static void transpose(const float *matrix, int ins, int outs, float *to) {
    for (int i = 0; i < ins; i++)
        for (int column = 0; column < outs; column++) to[(size_t)column * ins + i] = matrix[(size_t)i * outs + column];
}

static void positive(float *values, int count) {
    for (int i = 0; i < count; i++) values[i] = values[i] > 0 ? values[i] : 0;
}

static void where_positive(float *error, const float *values, int count) {
    for (int i = 0; i < count; i++) error[i] = values[i] > 0 ? error[i] : 0;
}

/* The last layer, CLASSES wide, stands in PADDED columns. */
static void pad(const float *matrix, const float *bias, int ins, float *padded, float *padded_bias) {
    memset(padded, 0, sizeof(float) * PADDED * (size_t)ins);
    memset(padded_bias, 0, sizeof(float) * PADDED);
    for (int i = 0; i < ins; i++) memcpy(padded + i * PADDED, matrix + i * CLASSES, sizeof(float) * CLASSES);
    memcpy(padded_bias, bias, sizeof(float) * CLASSES);
}

static void unpad(const float *padded, const float *padded_bias, int ins, float *matrix, float *bias) {
    for (int i = 0; i < ins; i++) memcpy(matrix + i * CLASSES, padded + i * PADDED, sizeof(float) * CLASSES);
    memcpy(bias, padded_bias, sizeof(float) * CLASSES);
}

/* logits become the gradient of cross-entropy by them: softmax less the label's one. */
static void blame(float *logits, int rows, const int64_t *labels, const int64_t *which) {
    for (int row = 0; row < rows; row++) {
        float *each = logits + (size_t)row * PADDED, most = each[0], all = 0;
        for (int k = 1; k < CLASSES; k++) most = each[k] > most ? each[k] : most;
        for (int k = 0; k < CLASSES; k++) all += each[k] = expf(each[k] - most);
        for (int k = 0; k < CLASSES; k++) each[k] /= all;
        each[labels[which[row]]] -= 1;
        for (int k = CLASSES; k < PADDED; k++) each[k] = 0;
    }
}

static int32_t right(const float *logits, int rows, const int64_t *labels) {
    int32_t found = 0;
    for (int row = 0; row < rows; row++) {
        const float *each = logits + (size_t)row * PADDED;
        int best = 0;
        for (int k = 1; k < CLASSES; k++) best = each[k] > each[best] ? k : best;
        found += best == labels[row];
    }
    return found;
}

static float *pick(const float *images, const int64_t *which, int count, float *to) {
    for (int row = 0; row < count; row++)
        memcpy(to + (size_t)row * PIXELS, images + which[row] * PIXELS, sizeof(float) * PIXELS);
    return to;
}

/* ---- multilayer perceptron, 196-64-32-10 */

enum {
    MLP_BIAS0 = PIXELS * HIDDEN1, MLP_MATRIX1 = MLP_BIAS0 + HIDDEN1, MLP_BIAS1 = MLP_MATRIX1 + HIDDEN1 * HIDDEN2,
    MLP_MATRIX2 = MLP_BIAS1 + HIDDEN2, MLP_BIAS2 = MLP_MATRIX2 + HIDDEN2 * CLASSES, MLP_VALUES = MLP_BIAS2 + CLASSES
};

static void mlp_forward(const float *weights, const float *last, const float *last_bias, const float *in, int rows,
                        float *first, float *second, float *logits) {
    multiply(in, rows, PIXELS, weights, weights + MLP_BIAS0, HIDDEN1, first);
    positive(first, rows * HIDDEN1);
    multiply(first, rows, HIDDEN1, weights + MLP_MATRIX1, weights + MLP_BIAS1, HIDDEN2, second);
    positive(second, rows * HIDDEN2);
    multiply(second, rows, HIDDEN2, last, last_bias, PADDED, logits);
}

int32_t mlp_gradient_sum(const float *weights, const float *images, const int64_t *labels, const int64_t *which,
                         int32_t count, float *sum) {
    float *space = calloc((size_t)count * (PIXELS + 2 * HIDDEN1 + 2 * HIDDEN2 + PADDED), sizeof(float));
    if (!space) return -1;
    float *in = pick(images, which, count, space), *first = in + (size_t)count * PIXELS;
    float *second = first + (size_t)count * HIDDEN1, *logits = second + (size_t)count * HIDDEN2;
    float *error1 = logits + (size_t)count * PADDED, *error2 = error1 + (size_t)count * HIDDEN1;
    float last[HIDDEN2 * PADDED], last_bias[PADDED], turned[HIDDEN1 * HIDDEN2], last_turned[PADDED * HIDDEN2];
    float last_sum[HIDDEN2 * PADDED] = {0}, last_bias_sum[PADDED] = {0};
    pad(weights + MLP_MATRIX2, weights + MLP_BIAS2, HIDDEN2, last, last_bias);
    mlp_forward(weights, last, last_bias, in, count, first, second, logits);
    blame(logits, count, labels, which);

    memset(sum, 0, sizeof(float) * MLP_VALUES);
    outer(second, logits, count, HIDDEN2, PADDED, last_sum);
    add_rows(logits, count, PADDED, last_bias_sum);
    unpad(last_sum, last_bias_sum, HIDDEN2, sum + MLP_MATRIX2, sum + MLP_BIAS2);
    transpose(last, HIDDEN2, PADDED, last_turned);
    multiply(logits, count, PADDED, last_turned, NULL, HIDDEN2, error2);
    where_positive(error2, second, count * HIDDEN2);
    outer(first, error2, count, HIDDEN1, HIDDEN2, sum + MLP_MATRIX1);
    add_rows(error2, count, HIDDEN2, sum + MLP_BIAS1);
    transpose(weights + MLP_MATRIX1, HIDDEN1, HIDDEN2, turned);
    multiply(error2, count, HIDDEN2, turned, NULL, HIDDEN1, error1);
    where_positive(error1, first, count * HIDDEN1);
    outer(in, error1, count, PIXELS, HIDDEN1, sum);
    add_rows(error1, count, HIDDEN1, sum + MLP_BIAS0);
    free(space);
    return 0;
}

int32_t mlp_right(const float *weights, const float *images, const int64_t *labels, int32_t count) {
    float *space = malloc(sizeof(float) * (size_t)count * (HIDDEN1 + HIDDEN2 + PADDED));
    if (!space) return -1;
    float *first = space, *second = first + (size_t)count * HIDDEN1, *logits = second + (size_t)count * HIDDEN2;
    float last[HIDDEN2 * PADDED], last_bias[PADDED];
    pad(weights + MLP_MATRIX2, weights + MLP_BIAS2, HIDDEN2, last, last_bias);
    mlp_forward(weights, last, last_bias, images, count, first, second, logits);
    int32_t found = right(logits, count, labels);
    free(space);
    return found;
}

/* ---- residual network: x1 = relu(conv0 x), x2 = relu(x1 + conv2 relu(conv1 x1)), fc x2 */

enum {
    CNN_BIAS0 = AROUND * CHANNELS, CNN_MATRIX1 = CNN_BIAS0 + CHANNELS, CNN_BIAS1 = CNN_MATRIX1 + TAPS * CHANNELS,
    CNN_MATRIX2 = CNN_BIAS1 + CHANNELS, CNN_BIAS2 = CNN_MATRIX2 + TAPS * CHANNELS, CNN_MATRIX3 = CNN_BIAS2 + CHANNELS,
    CNN_BIAS3 = CNN_MATRIX3 + FLAT * CLASSES, CNN_VALUES = CNN_BIAS3 + CLASSES
};
enum { WIDE = HALF + 2, BORDERED = SIDE + 2, ROW_TAPS = 3 * CHANNELS };

struct seen { /* what the backward pass needs of one image */
    float columns0[PLACES * AROUND], columns1[PLACES * TAPS], columns2[PLACES * TAPS];
    float map1[FLAT], map2[FLAT], map3[FLAT];
};

/* The 3x3 surroundings of every pixel of every second row and column. */
static void first_columns(const float *image, float *columns) {
    float around[BORDERED * BORDERED] = {0};
    for (int row = 0; row < SIDE; row++)
        memcpy(around + (row + 1) * BORDERED + 1, image + row * SIDE, sizeof(float) * SIDE);
    for (int row = 0; row < HALF; row++)
        for (int column = 0; column < HALF; column++, columns += AROUND)
            for (int tap = 0; tap < 3; tap++)
                memcpy(columns + 3 * tap, around + (2 * row + tap) * BORDERED + 2 * column, sizeof(float) * 3);
}

static void block_columns(const float *map, float *columns) {
    float around[WIDE * WIDE * CHANNELS] = {0};
    for (int row = 0; row < HALF; row++)
        memcpy(around + ((row + 1) * WIDE + 1) * CHANNELS, map + row * HALF * CHANNELS, sizeof(float) * HALF * CHANNELS);
    for (int row = 0; row < HALF; row++)
        for (int column = 0; column < HALF; column++, columns += TAPS)
            for (int tap = 0; tap < 3; tap++)
                memcpy(columns + ROW_TAPS * tap, around + ((row + tap) * WIDE + column) * CHANNELS,
                       sizeof(float) * ROW_TAPS);
}

/* What every pixel's surroundings received comes back to the pixels: the transpose of block_columns. */
static void block_pixels(const float *columns, float *map) {
    float around[WIDE * WIDE * CHANNELS] = {0};
    for (int row = 0; row < HALF; row++)
        for (int column = 0; column < HALF; column++, columns += TAPS)
            for (int tap = 0; tap < 3; tap++) {
                float *to = around + ((row + tap) * WIDE + column) * CHANNELS;
                for (int k = 0; k < ROW_TAPS; k++) to[k] += columns[ROW_TAPS * tap + k];
            }
    for (int row = 0; row < HALF; row++)
        memcpy(map + row * HALF * CHANNELS, around + ((row + 1) * WIDE + 1) * CHANNELS, sizeof(float) * HALF * CHANNELS);
}

static void cnn_forward(const float *weights, const float *last, const float *last_bias, const float *image,
                        struct seen *seen, float *logits) {
    first_columns(image, seen->columns0);
    multiply(seen->columns0, PLACES, AROUND, weights, weights + CNN_BIAS0, CHANNELS, seen->map1);
    positive(seen->map1, FLAT);
    block_columns(seen->map1, seen->columns1);
    multiply(seen->columns1, PLACES, TAPS, weights + CNN_MATRIX1, weights + CNN_BIAS1, CHANNELS, seen->map2);
    positive(seen->map2, FLAT);
    block_columns(seen->map2, seen->columns2);
    multiply(seen->columns2, PLACES, TAPS, weights + CNN_MATRIX2, weights + CNN_BIAS2, CHANNELS, seen->map3);
    for (int k = 0; k < FLAT; k++) seen->map3[k] += seen->map1[k];
    positive(seen->map3, FLAT);
    multiply(seen->map3, 1, FLAT, last, last_bias, PADDED, logits);
}

struct cnn { /* the weights as the passes want them */
    float last[FLAT * PADDED], last_bias[PADDED], last_turned[PADDED * FLAT];
    float turned1[CHANNELS * TAPS], turned2[CHANNELS * TAPS], last_sum[FLAT * PADDED], last_bias_sum[PADDED];
    struct seen seen;
};

/* One convolution of the block: what its weights are blamed for is added, and what stood before it is blamed for. */
static void block_backward(const float *error, const float *columns_seen, const float *turned, float *matrix_sum,
                           float *bias_sum, float *before) {
    float columns[PLACES * TAPS] = {0};
    outer(columns_seen, error, PLACES, TAPS, CHANNELS, matrix_sum);
    add_rows(error, PLACES, CHANNELS, bias_sum);
    multiply(error, PLACES, CHANNELS, turned, NULL, TAPS, columns);
    block_pixels(columns, before);
}

static void cnn_backward(struct cnn *all, const float *blamed, float *sum) {
    struct seen *seen = &all->seen;
    float error[FLAT] = {0}, inner[FLAT], through[FLAT];
    outer(seen->map3, blamed, 1, FLAT, PADDED, all->last_sum);
    add_rows(blamed, 1, PADDED, all->last_bias_sum);
    multiply(blamed, 1, PADDED, all->last_turned, NULL, FLAT, error);
    where_positive(error, seen->map3, FLAT);
    block_backward(error, seen->columns2, all->turned2, sum + CNN_MATRIX2, sum + CNN_BIAS2, inner);
    where_positive(inner, seen->map2, FLAT);
    block_backward(inner, seen->columns1, all->turned1, sum + CNN_MATRIX1, sum + CNN_BIAS1, through);
    for (int k = 0; k < FLAT; k++) error[k] += through[k]; /* the way around the block */
    where_positive(error, seen->map1, FLAT);
    outer(seen->columns0, error, PLACES, AROUND, CHANNELS, sum);
    add_rows(error, PLACES, CHANNELS, sum + CNN_BIAS0);
}

int32_t cnn_gradient_sum(const float *weights, const float *images, const int64_t *labels, const int64_t *which,
                         int32_t count, float *sum) {
    struct cnn *all = calloc(1, sizeof *all);
    if (!all) return -1;
    pad(weights + CNN_MATRIX3, weights + CNN_BIAS3, FLAT, all->last, all->last_bias);
    transpose(all->last, FLAT, PADDED, all->last_turned);
    transpose(weights + CNN_MATRIX1, TAPS, CHANNELS, all->turned1);
    transpose(weights + CNN_MATRIX2, TAPS, CHANNELS, all->turned2);
    memset(sum, 0, sizeof(float) * CNN_VALUES);
    for (int32_t each = 0; each < count; each++) {
        float logits[PADDED];
        cnn_forward(weights, all->last, all->last_bias, images + which[each] * PIXELS, &all->seen, logits);
        blame(logits, 1, labels, which + each);
        cnn_backward(all, logits, sum);
    }
    unpad(all->last_sum, all->last_bias_sum, FLAT, sum + CNN_MATRIX3, sum + CNN_BIAS3);
    free(all);
    return 0;
}

int32_t cnn_right(const float *weights, const float *images, const int64_t *labels, int32_t count) {
    struct cnn *all = malloc(sizeof *all);
    if (!all) return -1;
    pad(weights + CNN_MATRIX3, weights + CNN_BIAS3, FLAT, all->last, all->last_bias);
    int32_t found = 0;
    for (int32_t each = 0; each < count; each++) {
        float logits[PADDED];
        cnn_forward(weights, all->last, all->last_bias, images + (size_t)each * PIXELS, &all->seen, logits);
        found += right(logits, 1, labels + each);
    }
    free(all);
    return found;
}
