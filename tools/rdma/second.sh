# Ranks 2 and 3 of the tests of two hosts.
. ./pair.sh
failed=0
ranks matrix 2 3 || failed=1
python 1 || failed=1
(rank 2 traffic) &
two=$!
(rank 3 traffic) &
three=$!
await /tmp/traffic.2 running && await /tmp/traffic.3 running || failed=1
kill -9 $two $three
exit $failed
