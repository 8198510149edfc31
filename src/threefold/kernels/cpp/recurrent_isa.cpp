// The entry points of recurrent sequences, compiled once per instruction set.
#include "recurrent_backward.h"
#include "recurrent_forward.h"
#include "recurrent_step.h"

namespace {

// Calls f with the cell's kind as a constant.
template <class F> void of_kind(long kind, const F& f) {
    switch (kind) {
        case TANH: return f(std::integral_constant<int, TANH>{});
        case IDENTITY: return f(std::integral_constant<int, IDENTITY>{});
        case LSTM: return f(std::integral_constant<int, LSTM>{});
        case RESET_BEFORE: return f(std::integral_constant<int, RESET_BEFORE>{});
        case RESET_AFTER: return f(std::integral_constant<int, RESET_AFTER>{});
    }
}

// Packs the weights into call.shared, or frees them.
template <class R, template <class, int> class Block> void open(RecurrentCall& call) {
    of_kind(call.kind, [&](auto kind) {
        call.shared = new typename Block<R, kind.value>::Shared(View<R, kind.value>(call));
    });
}
template <class R, template <class, int> class Block> void close(RecurrentCall& call) {
    of_kind(call.kind, [&](auto kind) { delete static_cast<typename Block<R, kind.value>::Shared*>(call.shared); });
    call.shared = nullptr;
}
template <class R> void forward(const RecurrentCall& call) {
    of_kind(call.kind, [&](auto kind) { recurrent_forward<R, kind.value>(call); });
}
template <class R> void step(const RecurrentStep& call) {
    of_kind(call.kind, [&](auto kind) { recurrent_step<R, kind.value>(call); });
}
template <class R> void backward(const RecurrentCall& call) {
    of_kind(call.kind, [&](auto kind) { recurrent_backward<R, kind.value>(call); });
}

}  // namespace

#define TF_RECURRENT(suffix, R)                                                                                       \
    TF_EXPORT(tf_recurrent_forward_open_##suffix)(RecurrentCall* call) { open<R, ForwardBlock>(*call); }               \
    TF_EXPORT(tf_recurrent_forward_##suffix)(RecurrentCall* call) { forward<R>(*call); }                               \
    TF_EXPORT(tf_recurrent_forward_close_##suffix)(RecurrentCall* call) { close<R, ForwardBlock>(*call); }             \
    TF_EXPORT(tf_recurrent_step_##suffix)(const RecurrentStep* call) { step<R>(*call); }                               \
    TF_EXPORT(tf_recurrent_backward_open_##suffix)(RecurrentCall* call) { open<R, BackwardBlock>(*call); }             \
    TF_EXPORT(tf_recurrent_backward_##suffix)(RecurrentCall* call) { backward<R>(*call); }                             \
    TF_EXPORT(tf_recurrent_backward_close_##suffix)(RecurrentCall* call) { close<R, BackwardBlock>(*call); }

TF_RECURRENT(f32, float)
TF_RECURRENT(f64, double)
