// Slots, widths and latencies of a core's instructions, and what a program needs of them where NT_HOST_COUNT is
// defined.
//
// A bundle has a load on each of two ports, a store, a move and a vector instruction; scalar instructions are not
// counted. Latencies: llvm-aie's AIE2Schedule.td (048e9ad6) and AIE2PGenSchedule.td (1b54f072). Slots: llvm-aie's
// encodings of aie2p (VADD, VBAND, VGE, VSEL, VMAX, VSHUFFLE, VUPS and VCONV.fp32 are moves; VSRS, VCONV.bf16 and VPACK
// are stores, VUNPACK is a load); aie2 is assumed to have the same.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#ifdef NT_HOST_COUNT
#include <cstdlib>
#endif

namespace nt_host {

enum Slot : unsigned { LOAD_A, LOAD_B, LOAD, STORE, VECTOR, MOVE, SLOTS };  // LOAD: on either port

// Registers of a value. A value that was just loaded or broadcast has none yet: it goes where it is needed first.
enum Place : unsigned char { ANYWHERE = 0, REGISTER = 1, ACCUMULATOR = 2 };

// early: cycles by which a sum may be late, because accumulators are read in a later stage than factors.
struct Operation {
    Slot slot;
    unsigned latency, early;
    Place takes, gives;
};

constexpr bool AIE2 = __AIE_ARCH__ == 20;
constexpr unsigned LOAD_BYTES = AIE2 ? 32 : 64;   // VLDA/VLDB W (AM020); VLD X
constexpr unsigned STORE_BYTES = AIE2 ? 32 : 64;  // VST W (AM020); VST X
constexpr unsigned WIDENED_LANES = AIE2 ? 16 : 32;   // VLDA.CONV W; X
constexpr unsigned MULTIPLIED_LANES = AIE2 ? 16 : 32;  // bfloat16, one by one
constexpr unsigned LOAD_LATENCY = 7;

constexpr Operation PRODUCT{VECTOR, 6, AIE2 ? 2 : 3, REGISTER, ACCUMULATOR};               // a sum every 4; every 3
constexpr Operation INTEGER_PRODUCT{VECTOR, AIE2 ? 5 : 6, AIE2 ? 3 : 4, REGISTER, ACCUMULATOR};  // every 2
constexpr Operation SUM{VECTOR, 6, AIE2 ? 2 : 3, ACCUMULATOR, ACCUMULATOR};
constexpr Operation LANES{MOVE, 1, 0, REGISTER, REGISTER};  // 2, less the bypass between moves
constexpr Operation MASK{MOVE, 1, 0, ANYWHERE, ANYWHERE};  // none of these slots: scalar instructions
constexpr Operation WIDEN{MOVE, 2, 0, REGISTER, ACCUMULATOR};          // from the loads: VLDA.CONV 7, VLDA.UPS 9
constexpr Operation NARROW{STORE, 4, 0, ACCUMULATOR, REGISTER};
constexpr Operation PACK{STORE, 2, 0, REGISTER, REGISTER};
constexpr Operation UNPACK{LOAD_B, 2, 0, REGISTER, REGISTER};
constexpr unsigned MOVE_LATENCY = 2;  // between the two kinds of registers

// Instructions for `lanes` lanes, with `native` lanes each.
constexpr unsigned pieces(unsigned lanes, unsigned native) { return (lanes + native - 1) / native; }

#ifdef NT_HOST_COUNT

// Instructions per slot, and the latest cycle at which a stored value was ready.
inline thread_local int work[SLOTS];
inline thread_local unsigned latest;

// ready: cycle at which the value is there. loads, stores: instructions that brought it or left the store unit with it;
// a conversion merges with those.
struct Value {
    unsigned ready = 0;
    unsigned char places = ANYWHERE, loads = 0, stores = 0;
};

// A growing array. Reading <vector> would take as long as compiling a kernel.
template <typename T>
class List {
  public:
    List() = default;
    List(const List &) = delete;
    List &operator=(const List &) = delete;
    ~List() { std::free(items_); }
    unsigned size() const { return size_; }
    T &operator[](unsigned number) { return items_[number]; }
    void push_back(const T &item) {
        if (size_ == room_) {
            room_ = 2 * room_ + 64;
            items_ = static_cast<T *>(std::realloc(items_, room_ * sizeof(T)));
        }
        items_[size_++] = item;
    }

  private:
    T *items_ = nullptr;
    unsigned size_ = 0, room_ = 0;
};
struct Values : List<Value> {
    Values() { push_back({}); }  // a constant: in registers of both kinds
};
inline thread_local Values values;

inline void take_port_a(Value &value, unsigned instructions) {
    work[LOAD] -= value.loads;
    work[LOAD_A] += instructions;
    value.loads = 0;
}

// Copies of a vector are one value.
struct Timed {
    unsigned number = 0;

    Value &value() const { return values[number]; }
    void follow(const Timed &other) { number = other.number; }
    void begin(const Value &value) {
        number = values.size();
        values.push_back(value);
    }
    void loaded(unsigned bytes) {
        const unsigned instructions = pieces(bytes, LOAD_BYTES);
        work[LOAD] += instructions;
        begin({LOAD_LATENCY, ANYWHERE, static_cast<unsigned char>(instructions), 0});
    }
    // Aligned vectors on both sides of the address, and a shift.
    void unaligned(unsigned bytes) {
        work[LOAD] += 2 * pieces(bytes, LOAD_BYTES);
        work[MOVE] += pieces(bytes, 64);
        begin({LOAD_LATENCY + LANES.latency, REGISTER, 0, 0});
    }
    // Return the cycle at which the value is in registers of one kind. Only port A loads accumulators.
    unsigned use(Place place) const {
        if (number == 0) return 0;
        Value &v = value();
        if (v.places & place || place == ANYWHERE) return v.ready;
        if (v.places != ANYWHERE) {
            ++work[MOVE];
            v.ready += MOVE_LATENCY;
        } else if (place == ACCUMULATOR) {
            take_port_a(v, v.loads);
        }
        v.places |= place;
        return v.ready;
    }
};
struct Sum : Timed {};

template <std::derived_from<Timed>... Operands>
Timed issue(const Operation &operation, unsigned instructions, const Operands &...operands) {
    unsigned start = 0;
    const auto wait = [&]<typename Operand>(const Operand &operand) {
        const Place place = std::derived_from<Operand, Sum> ? ACCUMULATOR : operation.takes;
        const unsigned early = place == ACCUMULATOR ? operation.early : 0, ready = operand.use(place);
        if (ready > start + early) start = ready - early;
    };
    (wait(operands), ...);
    work[operation.slot] += instructions;
    Timed result;
    result.begin({start + operation.latency, operation.gives, 0,
                  static_cast<unsigned char>(operation.slot == STORE ? instructions : 0)});
    return result;
}
// A loaded vector is widened by the load.
template <std::derived_from<Timed> V>
Timed widen(unsigned instructions, const V &v) {
    const Value from = v.value();
    if (!from.loads || v.number == 0) return issue(WIDEN, instructions, v);
    take_port_a(v.value(), instructions > from.loads ? instructions : from.loads);
    Timed result;
    result.begin({from.ready, ACCUMULATOR, 0, 0});
    return result;
}
template <std::derived_from<Timed> V>
void stored(unsigned bytes, const V &v) {
    const unsigned instructions = pieces(bytes, STORE_BYTES);
    const Value &value = v.value();
    work[STORE] += instructions > value.stores ? instructions - value.stores : 0;
    if (value.ready > latest) latest = value.ready;
}
// The 64 bytes around are read, and written back.
inline void stored_unaligned(unsigned bytes) {
    work[LOAD] += pieces(bytes, LOAD_BYTES);
    work[MOVE] += 2 * pieces(bytes, 64);
}
// Numbers that were broadcast before are still in registers: constants, in a loop.
template <typename T>
void broadcasted(T value) {
    static thread_local List<std::uint64_t> held;
    std::uint64_t bits = sizeof(T);
    std::memcpy(reinterpret_cast<char *>(&bits) + 4, &value, sizeof value);
    for (unsigned i = 0; i < held.size(); ++i)
        if (held[i] == bits) return;
    held.push_back(bits);
    ++work[MOVE];
}

#else

struct Timed {
    template <typename Other>
    constexpr void follow(const Other &) {}
    constexpr void loaded(unsigned) {}
    constexpr void unaligned(unsigned) {}
};
struct Sum : Timed {};
template <typename... Operands>
constexpr Timed issue(const Operation &, unsigned, const Operands &...) { return {}; }
template <typename V>
constexpr Timed widen(unsigned, const V &) { return {}; }
template <typename V>
constexpr void stored(unsigned, const V &) {}
constexpr void stored_unaligned(unsigned) {}
template <typename T>
constexpr void broadcasted(T) {}

#endif

}  // namespace nt_host
