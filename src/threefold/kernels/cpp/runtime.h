// What every native kernel shares: names per instruction set, and loops over threads that torch already owns.
#pragma once

#define TF_JOIN_(a, b) a##_##b
#define TF_JOIN(a, b) TF_JOIN_(a, b)
// A C function, named after its instruction set: TF_EXPORT(tf_linear_forward) is tf_linear_forward_avx512.
#define TF_EXPORT(name) extern "C" __attribute__((visibility("default"))) void TF_JOIN(name, TF_ISA)

// Run body(context, i) for i in [0, n) on at most `threads` threads; returns when all are done.
extern "C" void tf_parallel(long n, int threads, void (*body)(void*, long), void* context);

// The same for a lambda. Everything here is inlined or local, so that no code compiled for one instruction set can be
// linked into another.
template <class Body>
static inline void parallel_for(long n, int threads, const Body& body) {
    if (threads <= 1 || n <= 1) {
        for (long i = 0; i < n; ++i) body(i);
        return;
    }
    tf_parallel(n, threads, [](void* context, long i) { (*static_cast<const Body*>(context))(i); },
                const_cast<void*>(static_cast<const void*>(&body)));
}
