# In one virtual machine: what the packages' tests need an RDMA adapter for.
failed=0
check() { # NAME PATTERN
  echo "== $1"
  "./$1.test" -test.timeout 100s -test.v -test.run "$2" >/tmp/out 2>&1 || failed=1
  grep -E -v '^(=== RUN|=== PAUSE|=== CONT)' /tmp/out
}
check ib .
check primitive 'RDMA|TestMemorySerial|TestConnection|TestPortChannel|TestSemaphore|TestEndpoint'
exit $failed
