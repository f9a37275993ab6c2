// A GPU's threads as fibers of one thread of the CPU: they take turns where they wait, what is
// asked for to be done meanwhile is done as late as can be, and where all wait for each other the
// program says so. The thread sanitizer takes fibers for threads, which nothing orders but what
// they ask for; what it must not see of their lists is written without it.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace host_gpu {

// A thread as the sanitizer knows it.
#ifdef __SANITIZE_THREAD__
class Watched {
 public:
  Watched() : known_(__tsan_create_fiber(0)), is_own_(true) {}
  // The thread that runs.
  explicit Watched(void* /*is there*/) : known_(__tsan_get_current_fiber()), is_own_(false) {}
  ~Watched() {
    if (is_own_) __tsan_destroy_fiber(known_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  [[gnu::noinline, gnu::no_sanitize("thread")]] void enter() const {
    __tsan_switch_to_fiber(known_, __tsan_switch_to_fiber_no_sync);
  }

 private:
  void* known_;
  bool is_own_;
};
#else
struct Watched {
  Watched() = default;
  explicit Watched(void*) {}
  void enter() const {}
};
#endif

// First in, first out, or last in, first out.
template <class Item>
class List {
 public:
  [[gnu::noinline, gnu::no_sanitize("thread")]] void add_last(Item* item) {
    item->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = item;
    last_ = item;
  }
  [[gnu::noinline, gnu::no_sanitize("thread")]] void add_first(Item* item) {
    item->next = first_;
    if (first_ == nullptr) last_ = item;
    first_ = item;
  }
  [[gnu::noinline, gnu::no_sanitize("thread")]] Item* take_first() {
    Item* taken = first_;
    if (taken != nullptr) first_ = taken->next;
    return taken;
  }

 private:
  Item *first_ = nullptr, *last_ = nullptr;
};

// What a thread has asked for.
struct Task {
  std::function<void()> work;
  struct Fiber* engine;  // that does it
  std::atomic<bool> is_asked{false};
  Task* next = nullptr;
};

struct Fiber {
  static constexpr size_t kStackBytes = 256 * 1024, kGuardBytes = 4096;

  Watched thread;
  ucontext_t context;
  std::unique_ptr<void, void (*)(void*)> stack{nullptr, free_stack};
  int number = 0;
  std::unique_ptr<Fiber> engine;  // does what this one asks for
  Fiber* next = nullptr;

  explicit Fiber(void* thread_that_runs) : thread(thread_that_runs) {}
  Fiber(int its_number, void (*begin)()) : number(its_number) {
    void* room = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) stop("no room for a thread's stack");
    stack.reset(room);
    mprotect(room, kGuardBytes, PROT_NONE);  // who needs more than a stack ends there
    getcontext(&context);
    context.uc_stack.ss_sp = room;
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, begin, 0);
  }

  [[noreturn]] static void stop(const char* why) {
    std::fprintf(stderr, "%s\n", why);
    std::abort();
  }

 private:
  static void free_stack(void* room) { munmap(room, kStackBytes); }
};

class Fibers {
 public:
  // Calls body(i) in a fiber for each i below `count`, until all are over.
  void run(int count, std::function<void(int)> body) {
    body_ = std::move(body);
    std::deque<Fiber> all;
    for (int i = 0; i < count; ++i) ready_.add_last(&all.emplace_back(i, be_thread));
    left_.store(count, std::memory_order_release);
    while (left_.load(std::memory_order_acquire) > 0) {
      go_on();
      if (left_.load(std::memory_order_acquire) > 0 && !do_last_task()) {
        Fiber::stop("all threads wait for each other");
      }
    }
    while (do_last_task()) {
    }
    left_.load(std::memory_order_acquire);  // what engines did is over too
    body_ = nullptr;                        // of code that may be gone at the next run
  }

  int number() const { return now_->number; }

  // The fiber that runs, until it is woken.
  void sleep(List<Fiber>& sleepers) {
    sleepers.add_last(now_);
    go_on();
  }
  void wake(List<Fiber>& sleepers) {
    while (Fiber* each = sleepers.take_first()) ready_.add_last(each);
  }

  // Once no fiber can go on; what was asked for last is done first.
  void do_late(std::function<void()> work) {
    std::unique_ptr<Fiber>& engine = now_->engine;
    if (!engine) engine = std::make_unique<Fiber>(now_->number, be_engine);
    auto* task = new Task{std::move(work), engine.get()};
    task->is_asked.store(true, std::memory_order_release);
    tasks_.add_first(task);
  }

 private:
  static void be_thread();
  static void be_engine();

  // Whoever can, in turn; the thread of the CPU itself when no fiber can.
  [[gnu::noinline, gnu::no_sanitize("thread")]] void go_on() {
    Fiber* next = ready_.take_first();
    go_to(next == nullptr ? &main_ : next);
  }
  [[gnu::noinline, gnu::no_sanitize("thread")]] void go_to(Fiber* next) {
    Fiber* before = now_;
    if (next == before) return;
    now_ = next;
    next->thread.enter();
    swapcontext(&before->context, &next->context);
  }

  [[gnu::noinline, gnu::no_sanitize("thread")]] bool do_last_task() {
    Task* task = tasks_.take_first();
    if (task == nullptr) return false;
    task_ = task;
    go_to(task->engine);
    return true;
  }

  std::function<void(int)> body_;
  Fiber main_{nullptr};
  Fiber* now_ = &main_;
  List<Fiber> ready_;
  List<Task> tasks_;
  Task* task_ = nullptr;      // that is done
  std::atomic<int> left_{0};  // fibers
};

inline Fibers fibers;

inline void Fibers::be_thread() {
  fibers.left_.load(std::memory_order_acquire);
  fibers.body_(fibers.number());
  fibers.left_.fetch_sub(1, std::memory_order_release);
  fibers.go_on();
}
inline void Fibers::be_engine() {
  for (;;) {
    {
      std::unique_ptr<Task> task(fibers.task_);
      if (task->is_asked.load(std::memory_order_acquire)) task->work();
    }
    fibers.left_.fetch_add(0, std::memory_order_release);
    fibers.go_on();
  }
}

// A barrier for so many. Who only arrives is told nothing of others.
class Meeting {
 public:
  int arrive(int threads) {
    int own = over_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_release) + 1 < threads) return own;
    arrived_.exchange(0, std::memory_order_acquire);
    over_.fetch_add(1, std::memory_order_release);
    fibers.wake(sleepers_);
    return own;
  }
  void wait(int own) {
    while (over_.load(std::memory_order_acquire) == own) fibers.sleep(sleepers_);
  }
  void arrive_and_wait(int threads) { wait(arrive(threads)); }
  int meetings() const { return over_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> arrived_{0}, over_{0};
  List<Fiber> sleepers_;
};

}  // namespace host_gpu
