// The entry points of recurrent sequences, compiled once per instruction set.
#include "recurrent_backward.h"
#include "recurrent_forward.h"

namespace {

template <class R> void forward(const RecurrentCall& call) {
    switch (call.kind) {
        case TANH: return recurrent_forward<R, TANH>(call);
        case IDENTITY: return recurrent_forward<R, IDENTITY>(call);
        case LSTM: return recurrent_forward<R, LSTM>(call);
        case RESET_BEFORE: return recurrent_forward<R, RESET_BEFORE>(call);
        case RESET_AFTER: return recurrent_forward<R, RESET_AFTER>(call);
    }
}

template <class R> void backward(const RecurrentCall& call) {
    switch (call.kind) {
        case TANH: return recurrent_backward<R, TANH>(call);
        case IDENTITY: return recurrent_backward<R, IDENTITY>(call);
        case LSTM: return recurrent_backward<R, LSTM>(call);
        case RESET_BEFORE: return recurrent_backward<R, RESET_BEFORE>(call);
        case RESET_AFTER: return recurrent_backward<R, RESET_AFTER>(call);
    }
}

}  // namespace

TF_EXPORT(tf_recurrent_forward_f32)(const RecurrentCall* call) { forward<float>(*call); }
TF_EXPORT(tf_recurrent_forward_f64)(const RecurrentCall* call) { forward<double>(*call); }
TF_EXPORT(tf_recurrent_backward_f32)(const RecurrentCall* call) { backward<float>(*call); }
TF_EXPORT(tf_recurrent_backward_f64)(const RecurrentCall* call) { backward<double>(*call); }
