// The lanes of a warp side by side: each runs until it waits for the others.
#pragma once

#include <ucontext.h>

#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

struct warp_of_lanes {
    static constexpr int LANES = 32;
    int now = 0;  // the lane that runs

    // Calls lane(i) for each i. Throws what a lane throws, or if one ends while another
    // waits for it.
    void run(const std::function<void(int)> &lane) {
        body = &lane;
        fault = nullptr;
        ended.assign(LANES, false);
        for (int i = 0; i < LANES; i++) {
            getcontext(&contexts[i]);
            contexts[i].uc_stack.ss_sp = &stacks[i * STACK];
            contexts[i].uc_stack.ss_size = STACK;
            contexts[i].uc_link = &scheduler;
            makecontext(&contexts[i], begin, 0);
        }
        int running = LANES;
        while (running) {
            for (now = 0; now < LANES; now++) {
                swapcontext(&scheduler, &contexts[now]);
                if (fault) std::rethrow_exception(fault);
                running -= ended[now];
            }
            if (running && running < LANES)
                throw std::runtime_error("a lane ends while another waits for it");
        }
    }

    void sync() { swapcontext(&contexts[now], &scheduler); }

  private:
    static constexpr std::size_t STACK = 1 << 18;
    ucontext_t scheduler, contexts[LANES];
    std::vector<char> stacks = std::vector<char>(LANES * STACK), ended;
    const std::function<void(int)> *body;
    std::exception_ptr fault;

    static void begin();
};

inline warp_of_lanes warp;

inline void warp_of_lanes::begin() {
    // nothing may be thrown past the beginning of a stack
    try {
        (*warp.body)(warp.now);
    } catch (...) {
        warp.fault = std::current_exception();
    }
    warp.ended[warp.now] = true;
}
