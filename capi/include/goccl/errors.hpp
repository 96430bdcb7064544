// Exceptions of the C++ library. A failed call of the C ABI throws one of these, with goccl's text of the failure.
#pragma once

#if __cplusplus < 201703L
#error "goccl's headers need C++17: compile with -std=c++17, or -std=c++20 for kernels' code in a host program"
#endif

#include <goccl.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace goccl {

enum class ErrorCode { SystemError, InternalError, RemoteError, InvalidUsage, Timeout, Aborted, ExecutorError };

inline std::string errorToString(ErrorCode code) {
  static const char* const names[] = {"SystemError", "InternalError", "RemoteError",  "InvalidUsage",
                                      "Timeout",     "Aborted",       "ExecutorError"};
  const auto i = static_cast<size_t>(code);
  return i < sizeof names / sizeof *names ? names[i] : "UnknownError";
}

class BaseError : public std::runtime_error {
 public:
  BaseError(const std::string& message, int errorCode)
      : std::runtime_error(message), message_(message), errorCode_(errorCode) {}
  explicit BaseError(int errorCode) : BaseError("error " + std::to_string(errorCode), errorCode) {}
  int getErrorCode() const { return errorCode_; }
  const char* what() const noexcept override { return message_.c_str(); }

 protected:
  std::string message_;
  int errorCode_;
};

// Error has a code of ErrorCode. result() is the goccl_result behind it, GOCCL_SUCCESS where there is none.
class Error : public BaseError {
 public:
  Error(const std::string& message, ErrorCode code, goccl_result result = GOCCL_SUCCESS)
      : BaseError(message + " (" + errorToString(code) + ")", static_cast<int>(code)), result_(result) {}
  ErrorCode getErrorCode() const { return static_cast<ErrorCode>(errorCode_); }
  goccl_result result() const { return result_; }

 private:
  goccl_result result_;
};

// SysError has an errno, CudaError a cudaError_t, CuError a CUresult.
class SysError : public BaseError {
 public:
  SysError(const std::string& message, int error)
      : BaseError(error ? message + " (" + std::strerror(error) + ")" : message, error) {}
};
class CudaError : public BaseError {
 public:
  CudaError(const std::string& message, int error)
      : BaseError(message + " (CUDA runtime error " + std::to_string(error) + ")", error) {}
};
class CuError : public BaseError {
 public:
  CuError(const std::string& message, int error)
      : BaseError(message + " (CUDA driver error " + std::to_string(error) + ")", error) {}
};
class IbError : public BaseError {
 public:
  using BaseError::BaseError;
};

namespace detail {

constexpr int cudaErrorUnknown =
    999;  // CUDA_ERROR_UNKNOWN: the C ABI gives the text of a driver's error, not its number

[[noreturn]] inline void raise(goccl_result r, const std::string& message) {
  if (r == GOCCL_CUDA_ERROR) throw CuError(message, cudaErrorUnknown);
  if (r == GOCCL_SYSTEM_ERROR) throw SysError(message, 0);
  throw Error(message,
              r == GOCCL_PEER_DEAD                               ? ErrorCode::RemoteError
              : r == GOCCL_TIMEOUT                               ? ErrorCode::Timeout
              : r == GOCCL_ABORTED                               ? ErrorCode::Aborted
              : r == GOCCL_OUT_OF_MEMORY || r == GOCCL_FORKED    ? ErrorCode::SystemError
              : r == GOCCL_INTERNAL_ERROR                        ? ErrorCode::InternalError
                                                                 : ErrorCode::InvalidUsage,
              r);
}

// check throws for a result that is not a success; what names the call.
inline void check(goccl_result r, const char* what) {
  if (r != GOCCL_SUCCESS) raise(r, std::string(what) + ": " + goccl_last_error());
}

[[noreturn]] inline void misuse(const std::string& message) {
  throw Error(message, ErrorCode::InvalidUsage, GOCCL_INVALID_USAGE);
}

}  // namespace detail
}  // namespace goccl
