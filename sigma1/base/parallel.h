// All of sigma1's threads. Work is cut by its size alone, never by the number of threads, so that
// results are the same bits on any machine.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace sigma1 {

int thread_count();
void set_thread_count(int count);  // 0: as many as the machine has

// A function that is only called while its caller waits: unlike std::function it allocates nothing,
// so that kernels do not either.
template <class... Arguments>
class FunctionView {
 public:
  // A call passes a lambda; never another view, which is copied.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionView>)
      FunctionView(F&& f)  // NOLINT(google-explicit-constructor,bugprone-forwarding-*)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Arguments... arguments) {
          (*static_cast<std::remove_reference_t<F>*>(object))(arguments...);
        }) {}

  void operator()(Arguments... arguments) const { call_(object_, arguments...); }

 private:
  void* object_;
  void (*call_)(void*, Arguments...);
};

// Calls body(begin, end) for consecutive pieces of [0, size), each of `grain` elements but the
// last. Inside such a body, on the calling thread alone.
void parallel_for(size_t size, size_t grain, FunctionView<size_t, size_t> body);

// Whether this is the inside of a parallel_for that has several threads.
bool in_parallel();

}  // namespace sigma1
