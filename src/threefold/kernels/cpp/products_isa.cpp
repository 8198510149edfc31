// The entry points of the large products, compiled once per instruction set.
#include "products.h"

namespace {

// What K and N must be multiples of: 0, the panels of rows_times(N); 1 and 2, the rows and registers of outer.
template <class R> long unit(long which, long N) {
    return which == 0 ? Packed<R>(0, N).wide * LANES<R> : which == 1 ? MOST_ROWS : LANES<R>;
}

}  // namespace

TF_EXPORT(tf_product_rows_f32)(const Product* p) { rows_times<float>(*p); }
TF_EXPORT(tf_product_rows_f64)(const Product* p) { rows_times<double>(*p); }
TF_EXPORT(tf_product_outer_f32)(const Product* p) { outer<float>(*p); }
TF_EXPORT(tf_product_outer_f64)(const Product* p) { outer<double>(*p); }
TF_EXPORT(tf_product_unit_f32)(long which, long N, long* out) { *out = unit<float>(which, N); }
TF_EXPORT(tf_product_unit_f64)(long which, long N, long* out) { *out = unit<double>(which, N); }
