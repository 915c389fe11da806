// Entry points for core code inside a host process. It runs with the floating-point mode of the array, and its errors
// do not end the process: host implementations of the array's API call `fail`.
//
// The simulator compiles a source together with one NT_HOST_ENTRY per declared function and calls the entries. Headers
// such as <algorithm>, <iterator> and <stdexcept> are not included: parsing them takes as long as compiling a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <type_traits>

#ifdef NT_HOST_GUARD
#include <csetjmp>
#include <csignal>
#endif

#if defined(NT_HOST_GUARD) && defined(__linux__)
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id  // Some versions of glibc have no name for this field.
#define sigev_notify_thread_id _sigev_un._tid
#endif
#endif

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// Default of nt_host::core_state, if no header declares one.
namespace nt_host_without_state {
inline struct State {
} core_state;
}  // namespace nt_host_without_state

namespace nt_host {

using namespace nt_host_without_state;

class Failure : public std::exception {
  public:
    explicit Failure(const char *message) : message_(message) {}
    const char *what() const noexcept override { return message_; }

  private:
    const char *message_;
};

// End the function that the array called; the simulator reports `message`, a static string. Destructors run.
[[noreturn]] inline void fail(const char *message) { throw Failure(message); }

// Flushes float32 denormals to zero, as the array does, in operands and results, while an object of this class lives.
class FlushDenormals {
  public:
#if defined(__x86_64__)
    FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }  // FTZ, bit 15, and DAZ, bit 6
    ~FlushDenormals() { _mm_setcsr(saved_); }

  private:
    unsigned saved_;
#elif defined(__aarch64__)
    FlushDenormals() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(saved_ | (std::uint64_t{1} << 24)));  // FZ
    }
    ~FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

  private:
    std::uint64_t saved_;
#else
#error "the simulator knows how to flush denormals on x86-64 and AArch64 only"
#endif

  public:
    FlushDenormals(const FlushDenormals &) = delete;
    FlushDenormals &operator=(const FlushDenormals &) = delete;
};

#ifdef NT_HOST_GUARD

// Crashes and endless loops end the guarded function, not the process. All other signals go to the previous handler.
struct Guard {
    static constexpr int SECONDS = 2;  // of computation by one call, however busy the machine is

    struct Caught {
        int signal;
        const char *message;
        struct sigaction before;
    };
    static inline Caught caught[] = {
        {SIGSEGV, "the code crashed (SIGSEGV)", {}},
        {SIGBUS, "the code crashed (SIGBUS)", {}},
        {SIGFPE, "the code crashed (SIGFPE)", {}},
        {SIGILL, "the code crashed (SIGILL)", {}},
        {SIGABRT, "the code crashed (SIGABRT)", {}},
        {SIGVTALRM, "the code did not end within 2 s of computation: is there an endless loop?", {}},
    };
    static inline thread_local sigjmp_buf *back = nullptr;

    static void handle(int signal, siginfo_t *info, void *context) {
        int number = 0;
        while (caught[number].signal != signal) ++number;
        const bool is_timer = signal == SIGVTALRM, is_own = !is_timer || info->si_value.sival_ptr == &back;
        if (is_own && back) siglongjmp(*back, number + 1);
        if (is_own && is_timer) return;  // It expired while the function returned.
        const struct sigaction &before = caught[number].before;
        if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
            sigaction(signal, &before, nullptr);
            raise(signal);
        } else {
            before.sa_sigaction(signal, info, context);
        }
    }
    static bool install() {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        for (Caught &each : caught) sigaction(each.signal, &action, &each.before);
        return true;
    }

    explicit Guard(sigjmp_buf *buffer) {
        [[maybe_unused]] static const bool installed = install();
        back = buffer;
        start_timer();
    }
    ~Guard() {
        back = nullptr;
        stop_timer();
    }

#ifdef __linux__
    // System calls, because glibc before 2.34 has their functions in a library of its own.
    int timer = -1;

    void start_timer() {
        struct sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGVTALRM;
        event.sigev_value.sival_ptr = &back;
        event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
        if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) return;
        const struct itimerspec limit = {{}, {SECONDS, 0}};
        syscall(SYS_timer_settime, timer, 0, &limit, nullptr);
    }
    void stop_timer() const {
        if (timer >= 0) syscall(SYS_timer_delete, timer);
    }
#else  // No timer of a single thread: an endless loop hangs.
    void start_timer() {}
    void stop_timer() const {}
#endif
};

#endif

// Argument of a function, as a design declares it: a pointer to elements of some size, or a number.
template <std::size_t ElementBytes>
struct Pointer {};
template <typename Type>
struct Number {};

template <typename Actual, typename Declared>
struct Agrees : std::false_type {};
template <typename Element, std::size_t ElementBytes>
struct Agrees<Element *, Pointer<ElementBytes>> {
    static constexpr bool value = sizeof(Element) == ElementBytes;
};
template <std::size_t ElementBytes>
struct Agrees<void *, Pointer<ElementBytes>> : std::true_type {};
template <std::size_t ElementBytes>
struct Agrees<const void *, Pointer<ElementBytes>> : std::true_type {};
template <typename Type>
struct Agrees<Type, Number<Type>> : std::true_type {};

template <typename... Declared>
struct Signature {};

// `call` calls `reset`, then `function` with its arguments. It returns null, or an error message that is valid until
// the next call of the same thread.
template <auto function, auto reset, typename Declared, typename Type = decltype(function)>
struct Entry {
    static_assert(!sizeof(Type), "a kernel function returns nothing and is not noexcept");
};

template <auto function, auto reset, typename... Declared, typename... Arguments>
struct Entry<function, reset, Signature<Declared...>, void (*)(Arguments...)> {
    static constexpr bool counts_agree() { return sizeof...(Declared) == sizeof...(Arguments); }

    template <typename... Types>
    struct List {};
    template <typename... Given, typename... Wanted>
    static constexpr bool types_agree(List<Given...>, List<Wanted...>) {
        if constexpr (sizeof...(Given) == sizeof...(Wanted)) {
            return (Agrees<Given, Wanted>::value && ...);
        }
        return true;
    }
    static_assert(counts_agree(), "the design declares another number of arguments than the function takes");
    static_assert(types_agree(List<Arguments...>{}, List<Declared...>{}),
                  "the design declares an argument whose size or kind differs from the function's parameter");

    static const char *call(Arguments... arguments) noexcept {
        static thread_local char message[512];
        auto *opaque = function;
        asm volatile("" : "+r"(opaque));  // Inlined arithmetic could move out of the scope of the mode.
        reset();
        const FlushDenormals flush;
#ifdef NT_HOST_GUARD
        sigjmp_buf buffer;
        const Guard guard(&buffer);
        if (const int number = sigsetjmp(buffer, 0)) return Guard::caught[number - 1].message;
#endif
        try {
            opaque(arguments...);
            return nullptr;
        } catch (const std::exception &error) {
            std::snprintf(message, sizeof message, "%s", error.what());
        } catch (...) {
            std::snprintf(message, sizeof message, "an exception of an unknown type");
        }
        return message;
    }
};

}  // namespace nt_host

// `symbol` and then nt_host::Pointer<bytes> or nt_host::Number<type> for each declared argument.
//
// The control registers (rounding, saturation) are reset before every call. On the array they keep the values that the
// core's last function set, so a function that relies on another one gives other results here.
#define NT_HOST_ENTRY(symbol, ...)                                                                           \
    static void nt_host_reset_##symbol() { nt_host::core_state = {}; }                                       \
    using nt_host_##symbol =                                                                                 \
        nt_host::Entry<&symbol, &nt_host_reset_##symbol, nt_host::Signature<__VA_ARGS__>>;                   \
    extern "C" {                                                                                             \
    extern const decltype(&nt_host_##symbol::call) nt_host_entry_##symbol = &nt_host_##symbol::call;         \
    }
