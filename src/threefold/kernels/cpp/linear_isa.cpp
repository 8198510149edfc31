// The entry points of causal linear attention, compiled once per instruction set.
#include "linear_backward.h"
#include "linear_step.h"
#include "runtime.h"

namespace {

// Tasks: rows x groups of heads x slices of the values.
template <class R, class Work> void tasks(const Call& c) {
    const long groups = (c.H + c.heads - 1) / c.heads;
    parallel_for(c.B * groups * c.slices, int(c.threads), [&](long i) {
        long first, last;
        cut<R>(c.V, c.slices, i % c.slices, first, last);
        const long from = i / c.slices % groups * c.heads, to = from + c.heads < c.H ? from + c.heads : c.H;
        Work(c, i / c.slices / groups, to - from, i % c.slices, first, last).run(from, to);
    });
}

template <class R, class In> void step(const Call& c) {
    parallel_for((c.B * c.H + c.heads - 1) / c.heads, int(c.threads), [&](long i) {
        Step<R, In> one(c);
        for (long head = i * c.heads; head < c.B * c.H && head < (i + 1) * c.heads; ++head) one.run(head / c.H, head % c.H);
    });
}

}  // namespace

TF_EXPORT(tf_linear_step_f32)(const Call* call) { step<float, float>(*call); }
TF_EXPORT(tf_linear_step_bf16)(const Call* call) { step<float, bf16>(*call); }
TF_EXPORT(tf_linear_step_f64)(const Call* call) { step<double, double>(*call); }
TF_EXPORT(tf_linear_forward_f32)(const Call* call) { tasks<float, Forward<float, float>>(*call); }
TF_EXPORT(tf_linear_forward_bf16)(const Call* call) { tasks<float, Forward<float, bf16>>(*call); }
TF_EXPORT(tf_linear_forward_f64)(const Call* call) { tasks<double, Forward<double, double>>(*call); }
TF_EXPORT(tf_linear_backward_f32)(const Call* call) { tasks<float, Backward<float, float>>(*call); }
TF_EXPORT(tf_linear_backward_bf16)(const Call* call) { tasks<float, Backward<float, bf16>>(*call); }
TF_EXPORT(tf_linear_backward_f64)(const Call* call) { tasks<double, Backward<double, double>>(*call); }
