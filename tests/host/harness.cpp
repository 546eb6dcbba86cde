// Compiles kernels/recurrence.cu as C++. INSTANCES lists INSTANCE(symbol, kernel) for
// each template instance; a symbol takes arguments as cuLaunchKernel does.
#include "shim.h"

#include "../../kernels/recurrence.cu"

#include <utility>

namespace {
template <typename... A, std::size_t... I>
void run(void (*kernel)(A...), unsigned blocks, void **args, std::index_sequence<I...>) {
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        warp.run([&](int) {
            kernel(*static_cast<std::remove_reference_t<A> *>(args[I])...);
        });
}

template <typename... A>
void run(void (*kernel)(A...), unsigned blocks, void **args) {
    run(kernel, blocks, args, std::index_sequence_for<A...>{});
}
}  // namespace

#define INSTANCE(symbol, ...) \
    extern "C" void symbol(unsigned blocks, void **args) { run(__VA_ARGS__, blocks, args); }
INSTANCES
