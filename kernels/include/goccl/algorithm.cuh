// Algorithms of one's own, described beside their kernels in one .cu file.
//
// A description has four parts, methods of a struct: initialize (what is made once for each communicator), context (once for each key), key (what tells
// contexts apart) and launch. The compiler evaluates them: they are constexpr and leave a table in the image, which the library reads. What is known only
// at run time appears in them as an Expression, which the library evaluates on the host, so describing an algorithm takes no compiler but NVRTC.
//
//   extern "C" __global__ void exchange(goccl::MemoryChannelHandle* channels, int rank, int nranks, uint64_t bytes) { ... }
//
//   struct Exchange : goccl::Algorithm {
//     goccl::Channels channels;
//     constexpr void context(goccl::Context& c) { channels = c.memoryChannels(goccl::output, goccl::input); }
//     constexpr void launch(goccl::Launch& l) {
//       l.kernel(GOCCL_KERNEL(exchange)).blocks(goccl::worldSize - 1).threads(1024).arguments(channels, goccl::rank, goccl::worldSize, goccl::inputSize);
//     }
//   };
//   GOCCL_ALGORITHM(exchange, Exchange, "allgather")
//
// Python: goccl.compile_native(name=…, file=…).create_exchange_algorithm(). Contexts exchange memory between the ranks: keys must change together on all
// ranks. The layout of the table is read by python/goccl/_description.py.
#pragma once

#include <goccl/config.cuh>

// NVRTC takes unannotated functions, such as the methods of descriptions, with -default-device only, which goccl.compile_native gives it.
#if GOCCL_CUDA
#define GOCCL_CONSTEXPR __host__ __device__ constexpr
#else
#define GOCCL_CONSTEXPR constexpr
#endif

namespace goccl {
namespace algorithm {

// Instructions of expressions, on a stack of int64.
enum class Code : uint32_t { constant, variable, extra, add, subtract, multiply, divide, modulo, minimum, maximum,
                           less, lessEqual, equal, both, either, select };

enum class Variable : uint32_t { input, output, inputSize, outputSize, rank, worldSize, localRank, localSize, peer, elementSize, type,
                               op, blocks, threads, scratch };

struct Instruction {
  Code code;
  uint32_t length;  // of an extra's name
  int64_t value;    // a constant, a Variable, a scratch buffer's Variable::scratch + number, or an extra's name: its first 8 bytes
};

}  // namespace algorithm

// Expression is a number that is known when an algorithm runs: arithmetic over the names below, in 64 bits, signed. Division rounds down.
struct Expression {
  static constexpr uint32_t capacity = 32;
  uint32_t length = 0;
  algorithm::Instruction code[capacity] = {};

  constexpr Expression() = default;
  GOCCL_CONSTEXPR Expression(int v) : Expression(algorithm::Code::constant, v) {}
  GOCCL_CONSTEXPR Expression(unsigned v) : Expression(algorithm::Code::constant, v) {}
  GOCCL_CONSTEXPR Expression(long v) : Expression(algorithm::Code::constant, v) {}
  GOCCL_CONSTEXPR Expression(unsigned long v) : Expression(algorithm::Code::constant, static_cast<int64_t>(v)) {}
  GOCCL_CONSTEXPR Expression(long long v) : Expression(algorithm::Code::constant, v) {}
  GOCCL_CONSTEXPR Expression(unsigned long long v) : Expression(algorithm::Code::constant, static_cast<int64_t>(v)) {}
  GOCCL_CONSTEXPR Expression(algorithm::Variable v) : Expression(algorithm::Code::variable, static_cast<int64_t>(v)) {}
  GOCCL_CONSTEXPR Expression(algorithm::Code c, int64_t v, uint32_t n = 0) { push({c, n, v}); }
  GOCCL_CONSTEXPR Expression(algorithm::Code c, const Expression& a, const Expression& b) {
    append(a);
    append(b);
    push({c, 0, 0});
  }

  // An expression that is too long to record ends the compilation here: it indexes past code.
  GOCCL_CONSTEXPR void push(algorithm::Instruction i) { code[length++] = i; }
  GOCCL_CONSTEXPR void append(const Expression& e) {
    for (uint32_t i = 0; i < e.length; ++i) push(e.code[i]);
  }
};

// What expressions are made of. Sizes are in bytes. blocks and threads are what the caller of execute asked for, 0 where it did not.
struct Name {
  algorithm::Variable variable;
  GOCCL_CONSTEXPR operator Expression() const { return variable; }
};
constexpr Name inputSize{algorithm::Variable::inputSize}, outputSize{algorithm::Variable::outputSize}, rank{algorithm::Variable::rank},
    worldSize{algorithm::Variable::worldSize}, localRank{algorithm::Variable::localRank}, localSize{algorithm::Variable::localSize},
    elementSize{algorithm::Variable::elementSize}, type{algorithm::Variable::type}, op{algorithm::Variable::op}, blocks{algorithm::Variable::blocks},
    threads{algorithm::Variable::threads};
// peer is another rank, in the condition of Initialize::connect.
constexpr Name peer{algorithm::Variable::peer};

// extra is an entry of execute's extras, 0 where there is none. Its name has at most 8 bytes.
GOCCL_CONSTEXPR Expression extra(const char* name) {
  uint64_t packed = 0;
  uint32_t n = 0;
  for (; name[n]; ++n) packed |= static_cast<uint64_t>(static_cast<uint8_t>(name[n])) << (8 * n);  // a ninth byte shifts too far: no constant expression
  return Expression(algorithm::Code::extra, static_cast<int64_t>(packed), n);
}

GOCCL_CONSTEXPR Expression operator+(const Expression& a, const Expression& b) { return Expression(algorithm::Code::add, a, b); }
GOCCL_CONSTEXPR Expression operator-(const Expression& a, const Expression& b) { return Expression(algorithm::Code::subtract, a, b); }
GOCCL_CONSTEXPR Expression operator*(const Expression& a, const Expression& b) { return Expression(algorithm::Code::multiply, a, b); }
GOCCL_CONSTEXPR Expression operator/(const Expression& a, const Expression& b) { return Expression(algorithm::Code::divide, a, b); }
GOCCL_CONSTEXPR Expression operator%(const Expression& a, const Expression& b) { return Expression(algorithm::Code::modulo, a, b); }
GOCCL_CONSTEXPR Expression operator<(const Expression& a, const Expression& b) { return Expression(algorithm::Code::less, a, b); }
GOCCL_CONSTEXPR Expression operator<=(const Expression& a, const Expression& b) { return Expression(algorithm::Code::lessEqual, a, b); }
GOCCL_CONSTEXPR Expression operator>(const Expression& a, const Expression& b) { return b < a; }
GOCCL_CONSTEXPR Expression operator>=(const Expression& a, const Expression& b) { return b <= a; }
GOCCL_CONSTEXPR Expression operator==(const Expression& a, const Expression& b) { return Expression(algorithm::Code::equal, a, b); }
GOCCL_CONSTEXPR Expression operator!=(const Expression& a, const Expression& b) { return (a == b) == 0; }
// Both sides are always evaluated.
GOCCL_CONSTEXPR Expression operator&&(const Expression& a, const Expression& b) { return Expression(algorithm::Code::both, a, b); }
GOCCL_CONSTEXPR Expression operator||(const Expression& a, const Expression& b) { return Expression(algorithm::Code::either, a, b); }
GOCCL_CONSTEXPR Expression operator!(const Expression& a) { return a == 0; }
GOCCL_CONSTEXPR Expression minimum(const Expression& a, const Expression& b) { return Expression(algorithm::Code::minimum, a, b); }
GOCCL_CONSTEXPR Expression maximum(const Expression& a, const Expression& b) { return Expression(algorithm::Code::maximum, a, b); }
GOCCL_CONSTEXPR Expression ceilDivide(const Expression& a, const Expression& b) { return (a + b - 1) / b; }
// select is a where condition is not 0, else b. Both are evaluated.
GOCCL_CONSTEXPR Expression select(const Expression& condition, const Expression& a, const Expression& b) {
  Expression e = condition;
  e.append(a);
  e.append(b);
  e.push({algorithm::Code::select, 0, 0});
  return e;
}

// Memory is a buffer: the caller's input and output, or scratch. As an expression, or a kernel's argument, it is its address.
struct Memory {
  uint32_t number = ~0u;
  GOCCL_CONSTEXPR operator Expression() const {
    return number < 2 ? Expression(algorithm::Code::variable, number)
                      : Expression(algorithm::Code::variable, static_cast<int64_t>(algorithm::Variable::scratch) + number - 2);
  }
};
constexpr Memory input{0}, output{1}, noMemory{};

// Connections are a set of connections, made by initialize. Channels are channels to the peers of one: as a kernel's argument, the address of an
// array of device handles in rank order. The handle of a rank without a connection, such as the own one, is zeros. A switch channel is a single handle.
struct Connections {
  uint32_t number = 0;
};
struct Channels {
  uint32_t number = ~1u;  // none
};

enum class Transport : uint32_t { ipc = 1, ethernet = 10 };

namespace algorithm {

// The table. Only this part is known outside of this file.
constexpr uint32_t magic = 0x4c415047, version = 1;  // "GPAL"
constexpr uint32_t maxConnections = 4, maxScratch = 4, maxChannels = 8, maxLaunches = 4, maxArguments = 24, maxCode = 512;

struct Code32 {  // a part of Description::code
  uint32_t start, length;
};
enum class ChannelKind : uint32_t { memory = 1, port, semaphore, switchChannel };
struct ChannelsEntry {
  ChannelKind kind;
  uint32_t connections, to, from, packets;
};
struct ConnectionsEntry {
  uint32_t transport;
  Code32 where;
};
struct ArgumentEntry {
  uint32_t size;      // bytes of the kernel's parameter
  uint32_t channels;  // number of a Channels, or ~0
  Code32 value;
};
struct LaunchEntry {
  char kernel[64];
  Code32 condition, grid[3], block[3], shared;
  uint32_t arguments, parameters;  // those given, those that the kernel has
  ArgumentEntry argument[maxArguments];
};
enum KeyPart : uint32_t { keyInput = 1, keyOutput = 2, keyInputSize = 4, keyOutputSize = 8, keyType = 16, keyOp = 32 };

struct Description {
  uint32_t magic = algorithm::magic, version = algorithm::version, size = 0, key = 0;
  char name[64] = {}, collective[32] = {};
  uint64_t minMessageSize = 0, maxMessageSize = 0;
  uint32_t connections = 0, scratch = 0, channels = 0, launches = 0, codeLength = 0, reserved = 0;
  ConnectionsEntry connection[maxConnections] = {};
  Code32 scratchSize[maxScratch] = {};
  ChannelsEntry channel[maxChannels] = {};
  LaunchEntry launch[maxLaunches] = {};
  Instruction code[maxCode] = {};

  GOCCL_CONSTEXPR Code32 add(const Expression& e) {
    Code32 c{codeLength, e.length};
    for (uint32_t i = 0; i < e.length; ++i) code[codeLength++] = e.code[i];
    return c;
  }
};

template <uint32_t n>
GOCCL_CONSTEXPR void copyName(char (&to)[n], const char* from) {
  uint32_t i = 0;
  for (; from[i]; ++i) to[i] = from[i];  // a name that is too long writes past to: no constant expression
  to[i] = 0;
}

// A kernel's name and the types of its parameters.
template <class Function>
struct Kernel;
template <class... Parameters>
struct Kernel<void (*)(Parameters...)> {
  const char* name;
  static constexpr uint32_t count = sizeof...(Parameters);
  static constexpr uint32_t sizes[count + 1] = {sizeof(Parameters)..., 0};
};

}  // namespace algorithm

// GOCCL_KERNEL names an extern "C" __global__ function. Its arguments are checked against its parameters.
#define GOCCL_KERNEL(function) (::goccl::algorithm::Kernel<decltype(&function)>{#function})

// Initialize describes what is made once for each communicator, by all ranks together.
class Initialize {
 public:
  GOCCL_CONSTEXPR explicit Initialize(algorithm::Description& d) : d_(d) {}

  // connect makes connections to the other ranks for which where, an expression of rank and peer, is not 0. It must be symmetric: rank and peer
  // exchanged give the same. Semaphores and memory go over them.
  GOCCL_CONSTEXPR Connections connect(const Expression& where = 1, Transport transport = Transport::ipc) {
    d_.connection[d_.connections] = {static_cast<uint32_t>(transport), d_.add(where)};
    return {d_.connections++};
  }

 private:
  algorithm::Description& d_;
};

// Context describes what is made once for each key, by all ranks together.
class Context {
 public:
  GOCCL_CONSTEXPR explicit Context(algorithm::Description& d) : d_(d) {}

  // scratch is zeroed memory of its own that peers can reach, of as many bytes, at least one.
  GOCCL_CONSTEXPR Memory scratch(const Expression& bytes) {
    d_.scratchSize[d_.scratch] = d_.add(bytes);
    return {2 + d_.scratch++};
  }
  // memoryChannels go from from here to the peers' to (MemoryChannelHandle). Peers put packets into packets here, if given.
  GOCCL_CONSTEXPR Channels memoryChannels(Memory to, Memory from, Memory packets = noMemory, Connections over = {}) {
    return add(algorithm::ChannelKind::memory, over, to, from, packets);
  }
  // portChannels go from from here to the peers' to, through a proxy (PortChannelHandle).
  GOCCL_CONSTEXPR Channels portChannels(Memory to, Memory from, Connections over = {}) { return add(algorithm::ChannelKind::port, over, to, from, noMemory); }
  // semaphores signal and move no data (BaseMemoryChannelHandle).
  GOCCL_CONSTEXPR Channels semaphores(Connections over = {}) { return add(algorithm::ChannelKind::semaphore, over, noMemory, noMemory, noMemory); }
  // switchChannel reaches the same memory of all ranks, which has one size everywhere (SwitchChannelHandle).
  GOCCL_CONSTEXPR Channels switchChannel(Memory memory) { return add(algorithm::ChannelKind::switchChannel, {}, memory, memory, noMemory); }

 private:
  GOCCL_CONSTEXPR Channels add(algorithm::ChannelKind kind, Connections over, Memory to, Memory from, Memory packets) {
    d_.channel[d_.channels] = {kind, over.number, to.number, from.number, packets.number};
    return {d_.channels++};
  }
  algorithm::Description& d_;
};

// Key says which of a call's arguments a context is for; calls that agree in them share one. Without any, all calls share one.
class Key {
 public:
  GOCCL_CONSTEXPR explicit Key(algorithm::Description& d) : d_(d) {}

  GOCCL_CONSTEXPR Key& input() { return add(algorithm::keyInput); }
  GOCCL_CONSTEXPR Key& output() { return add(algorithm::keyOutput); }
  GOCCL_CONSTEXPR Key& inputSize() { return add(algorithm::keyInputSize); }
  GOCCL_CONSTEXPR Key& outputSize() { return add(algorithm::keyOutputSize); }
  GOCCL_CONSTEXPR Key& type() { return add(algorithm::keyType); }
  GOCCL_CONSTEXPR Key& op() { return add(algorithm::keyOp); }

 private:
  GOCCL_CONSTEXPR Key& add(uint32_t part) {
    d_.key |= part;
    return *this;
  }
  algorithm::Description& d_;
};

// Launch describes the kernels of a call, which are enqueued in order.
class Launch {
 public:
  GOCCL_CONSTEXPR explicit Launch(algorithm::Description& d) : d_(d) {}

  template <class Function>
  class Shape {
   public:
    GOCCL_CONSTEXPR Shape(algorithm::Description& d, algorithm::LaunchEntry& e) : d_(d), e_(e) {}

    // when makes the launch happen only where condition is not 0.
    GOCCL_CONSTEXPR Shape& when(const Expression& condition) {
      e_.condition = d_.add(condition);
      return *this;
    }
    GOCCL_CONSTEXPR Shape& blocks(const Expression& x, const Expression& y = 1, const Expression& z = 1) {
      e_.grid[0] = d_.add(x), e_.grid[1] = d_.add(y), e_.grid[2] = d_.add(z);
      return *this;
    }
    GOCCL_CONSTEXPR Shape& threads(const Expression& x, const Expression& y = 1, const Expression& z = 1) {
      e_.block[0] = d_.add(x), e_.block[1] = d_.add(y), e_.block[2] = d_.add(z);
      return *this;
    }
    // shared is the dynamic shared memory of a block, in bytes.
    GOCCL_CONSTEXPR Shape& shared(const Expression& bytes) {
      e_.shared = d_.add(bytes);
      return *this;
    }
    // arguments are expressions, memory and channels, one for each parameter of the kernel. Integers take the parameter's width.
    template <class... Arguments>
    GOCCL_CONSTEXPR Shape& arguments(const Arguments&... a) {
      static_assert(sizeof...(Arguments) == algorithm::Kernel<Function>::count, "the kernel has another number of parameters");
      (argument(a), ...);
      return *this;
    }

   private:
    GOCCL_CONSTEXPR algorithm::ArgumentEntry& next() {
      algorithm::ArgumentEntry& a = e_.argument[e_.arguments];
      a.size = algorithm::Kernel<Function>::sizes[e_.arguments++];
      a.channels = ~0u;
      return a;
    }
    GOCCL_CONSTEXPR void argument(Channels c) { next().channels = c.number; }
    GOCCL_CONSTEXPR void argument(const Expression& v) { next().value = d_.add(v); }

    algorithm::Description& d_;
    algorithm::LaunchEntry& e_;
  };

  template <class Function>
  GOCCL_CONSTEXPR Shape<Function> kernel(algorithm::Kernel<Function> k) {
    algorithm::LaunchEntry& e = d_.launch[d_.launches++];
    algorithm::copyName(e.kernel, k.name);
    e.parameters = k.count;
    Shape<Function> s(d_, e);
    s.when(1).blocks(1).threads(1).shared(0);
    return s;
  }

 private:
  algorithm::Description& d_;
};

// Algorithm is the base of descriptions: connections to all other ranks over IPC, a context for each set of addresses and sizes, any message size.
struct Algorithm {
  static constexpr uint64_t minMessageSize = 0, maxMessageSize = ~0ull;
  GOCCL_CONSTEXPR void initialize(Initialize& i) { i.connect(); }
  GOCCL_CONSTEXPR void context(Context&) {}
  GOCCL_CONSTEXPR void key(Key& k) { k.input().output().inputSize().outputSize(); }
};

namespace algorithm {
template <class T>
GOCCL_CONSTEXPR Description describe(const char* name, const char* collective) {
  Description d;
  d.size = sizeof(Description);
  copyName(d.name, name);
  copyName(d.collective, collective);
  d.minMessageSize = T::minMessageSize;
  d.maxMessageSize = T::maxMessageSize;
  T t{};
  Initialize i(d);
  t.initialize(i);
  Context c(d);
  t.context(c);
  Key k(d);
  t.key(k);
  Launch l(d);
  t.launch(l);
  return d;
}
}  // namespace algorithm
}  // namespace goccl

// GOCCL_ALGORITHM puts the description of an algorithm into the image: its name, its struct, and the collective, such as "allgather".
#define GOCCL_ALGORITHM(name, structure, collective)                                                                                  \
  extern "C" {                                                                                                                        \
  __device__ ::goccl::algorithm::Description goccl_algorithm_##name = ::goccl::algorithm::describe<structure>(#name, collective);     \
  }
