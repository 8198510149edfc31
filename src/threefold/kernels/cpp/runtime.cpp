// Threads and processor detection.
//
// Threads are borrowed from the OpenMP runtime that torch brought along (tf_use_openmp hands over its GOMP_parallel):
// a second runtime, or threads of our own beside its spinning ones, would fight for the same cores. Without one,
// plain threads are started for the call.
#include "runtime.h"

#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <atomic>
#include <thread>
#include <vector>

#define TF_PUBLIC extern "C" __attribute__((visibility("default")))

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
std::atomic<GompParallel> gomp_parallel{nullptr};

struct Loop {
    std::atomic<long> next{0};
    long n;
    void (*body)(void*, long);
    void* context;
};

void work(void* pointer) {
    Loop& loop = *static_cast<Loop*>(pointer);
    for (long i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.n;) loop.body(loop.context, i);
}

}  // namespace

TF_PUBLIC void tf_use_openmp(void* function) { gomp_parallel = reinterpret_cast<GompParallel>(function); }

TF_PUBLIC int tf_has_openmp() { return gomp_parallel.load() != nullptr; }

TF_PUBLIC void tf_parallel(long n, int threads, void (*body)(void*, long), void* context) {
    Loop loop;
    loop.n = n;
    loop.body = body;
    loop.context = context;
    if (threads > n) threads = static_cast<int>(n);
    if (threads <= 1) {
        work(&loop);
    } else if (GompParallel parallel = gomp_parallel.load()) {
        parallel(work, &loop, static_cast<unsigned>(threads), 0);
    } else {
        std::vector<std::thread> others;
        for (int i = 1; i < threads; ++i) others.emplace_back(work, &loop);
        work(&loop);
        for (std::thread& each : others) each.join();
    }
}

// A large result is fresh memory: by small pages the kernel is asked for each 4 KB as they are written, which costs as much
// as the arithmetic. Large pages are asked for in one five-hundredth of the times.
TF_PUBLIC void tf_large_pages(void* start, long bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t large = uintptr_t(1) << 21;
    const uintptr_t from = (reinterpret_cast<uintptr_t>(start) + large - 1) / large * large;
    const uintptr_t to = (reinterpret_cast<uintptr_t>(start) + static_cast<uintptr_t>(bytes)) / large * large;
    if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);  // only advice: it may be refused
#else
    (void)start, (void)bytes;
#endif
}

// What this library was built from, so that code of another time does not call it.
TF_PUBLIC const char* tf_sources() { return TF_SOURCES; }

// The best instruction set that this processor runs and this library holds: "avx512", "avx2" or "base".
TF_PUBLIC const char* tf_best_isa() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        return "avx2";
#endif
    return "base";
}
