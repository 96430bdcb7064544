// What the C++ test programs share.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                                     \
    }                                                                                    \
  } while (0)

// throws returns the text of the exception of class E that f throws.
template <class E>
std::string throws(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  std::fprintf(stderr, "nothing was thrown\n");
  std::_Exit(1);
}

// ranks runs rank(r) in n forked processes and returns 0 if all of them did well. The parent does not use the library.
inline int ranks(int n, const std::function<void(int)>& rank) {
  for (int r = 0; r < n; ++r) {
    if (fork() != 0) continue;
    try {
      rank(r);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", r, e.what());
      std::_Exit(1);
    }
    std::exit(0);
  }
  int bad = 0, status = 0;
  while (wait(&status) > 0) bad |= status;
  return bad != 0;
}
