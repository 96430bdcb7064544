# Ranks 0 and 1 of the tests of two hosts.
. ./pair.sh
failed=0
echo "== every collective of 2 × 2 ranks over RDMA"
ranks matrix 0 1 || failed=1
grep -q 'network="ib rxe0' /tmp/matrix.0 || failed=1 # what ranks choose by themselves
echo "== the seed's Python: rank 0 by IB0 here, rank 1 by IB1 there"
python 0 || failed=1
echo "== the other host is killed: these ranks get an error and go on"
ranks traffic 0 1 || failed=1
for r in 0 1; do grep -q '"Event":"shrunk"' /tmp/traffic.$r || failed=1; done
exit $failed
