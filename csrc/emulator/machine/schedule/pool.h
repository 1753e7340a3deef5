// Host threads that live as long as the process and help whoever launches.
#pragma once

#include <functional>

namespace apb::emu {

// Runs `work` on the calling thread (on one of its own where the calling thread's stack is small) and on up to `helpers` threads of the pool at once; returns when all of them have
// returned. Helpers that have not begun when the caller's own call returns never begin, so a busy pool delays nobody.
// `work` must not throw.
void run_on_pool(unsigned helpers, const std::function<void()>& work);

}  // namespace apb::emu
