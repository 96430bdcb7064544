# Steps of gpu.sh, which sources this: memory channels of two GPUs at the sizes of MSCCL++'s tutorial 03. $MSCCLPP has
# that program as bidir_memory_channel, on its own library, and its source under tutorials/, which is built here on
# goccl's headers and libmscclpp.so. Both programs enqueue 1,000 launches as one graph and wait for the last.
if [ "$gpus" -lt 2 ]; then
  skip channels "fewer than two GPUs"
else
  for size in 1K 1M 64M 128M; do
    step "channels.goccl.$size" 60 goccl run -n 2 -- "$work/bin/03-memory-channel" \
      -bytes "$(numfmt --from=iec "$size")" -iterations 1000
  done
  if [ -x "${MSCCLPP-}/bidir_memory_channel" ]; then
    step channels.mscclpp 120 env MSCCLPP_FORCE_DISABLE_NVLS=1 "$MSCCLPP/bidir_memory_channel"
    step channels.rebuilt 300 "$work/capi/testdata/cpp/run_all.sh" "$work/build" "$MSCCLPP/tutorials"
  else
    skip channels.mscclpp "MSCCLPP names no folder with bidir_memory_channel"
  fi
fi
