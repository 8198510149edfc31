// The smallest kernel: y += a * x. It shows that an instruction set's code loads, runs and shares torch's threads.
#include "runtime.h"

TF_EXPORT(tf_probe)(float* y, const float* x, float a, long n, int threads) {
    const long block = 4096;
    parallel_for((n + block - 1) / block, threads, [&](long i) {
        const long end = (i + 1) * block < n ? (i + 1) * block : n;
        for (long j = i * block; j < end; ++j) y[j] += a * x[j];
    });
}
