#!/usr/bin/env bash
# Makes sure that the system programs which the build and the tests call are there: a C and C++ compiler for cgo and
# for the thread sanitizer runs, and ip for tests over network namespaces. Installs Debian or Ubuntu packages when run
# as root; otherwise names them.
set -euo pipefail

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v g++ >/dev/null || missing+=(g++)
command -v ip >/dev/null || missing+=(iproute2)
# Debian has venv in a separate package.
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "make: missing programs; install these packages (Debian names) and run make again: ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
