// Floating point: a five-body simulation, a matrix product, an LU factorisation with pivoting.
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODIES 5

// Its last digits depend on the architecture: where there are fused multiply-adds, the compiler uses them.

int nbody(long steps) {
    static double position[BODIES][3], velocity[BODIES][3], mass[BODIES];
    for (int i = 0; i < BODIES; i++) {
        mass[i] = 1.0 / (i + 1);
        for (int k = 0; k < 3; k++) {
            position[i][k] = i * 1.5 + k * 0.7 + 0.1 * i * k;
            velocity[i][k] = 0.01 * (i - k);
        }
    }
    for (long s = 0; s < steps; s++) {
        for (int i = 0; i < BODIES; i++)
            for (int j = i + 1; j < BODIES; j++) {
                double *a = position[i], *b = position[j], *v = velocity[i], *w = velocity[j];
                double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
                double square = x * x + y * y + z * z + 0.01; // softened, so that near bodies don't fly off
                double pull = 0.001 / (square * sqrt(square));
                v[0] -= x * mass[j] * pull;
                v[1] -= y * mass[j] * pull;
                v[2] -= z * mass[j] * pull;
                w[0] += x * mass[i] * pull;
                w[1] += y * mass[i] * pull;
                w[2] += z * mass[i] * pull;
            }
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < 3; k++) position[i][k] += 0.001 * velocity[i][k];
    }
    printf("nbody %.12f\n", position[0][0]);
    return 0;
}

int matmul(long rounds) {
    const int n = 256;
    double *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = malloc(n * n * sizeof *c);
    if (!a || !b || !c) return 1;
    for (int i = 0; i < n * n; i++) {
        a[i] = (i % 13) * 0.3;
        b[i] = (i % 7) * 0.7;
    }
    for (long r = 0; r < rounds; r++) {
        memset(c, 0, n * n * sizeof *c);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++) {
                double t = a[i * n + k];
                for (int j = 0; j < n; j++) c[i * n + j] += t * b[k * n + j];
            }
    }
    printf("matmul %.6f\n", c[n + 1]);
    free(a);
    free(b);
    free(c);
    return 0;
}

int lu(long rounds) {
    const int n = 300;
    double *a = malloc(n * n * sizeof *a);
    if (!a) return 1;
    double sum = 0;
    for (long r = 0; r < rounds; r++) {
        for (int i = 0; i < n * n; i++) a[i] = (double)(next_number() >> 11) / (double)(1ull << 53) - 0.5;
        for (int k = 0; k < n; k++) {
            int pivot = k;
            for (int i = k + 1; i < n; i++)
                if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
            if (pivot != k)
                for (int j = 0; j < n; j++) {
                    double t = a[k * n + j];
                    a[k * n + j] = a[pivot * n + j];
                    a[pivot * n + j] = t;
                }
            for (int i = k + 1; i < n; i++) {
                double factor = a[i * n + k] / a[k * n + k];
                a[i * n + k] = factor;
                for (int j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
            }
        }
        sum += a[(n - 1) * n + n - 1];
    }
    printf("lu %.6f\n", sum);
    free(a);
    return 0;
}
