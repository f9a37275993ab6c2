// All of sigma1's threads. Work is cut by its size alone, never by the number of threads, so that
// results are the same bits on any machine.
#pragma once

#include <cstddef>
#include <functional>

namespace sigma1 {

int thread_count();
void set_thread_count(int count);  // 0: as many as the machine has

// Calls body(begin, end) for consecutive pieces of [0, size), each of `grain` elements but the
// last.
void parallel_for(size_t size, size_t grain, const std::function<void(size_t, size_t)>& body);

}  // namespace sigma1
