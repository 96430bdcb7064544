// Package launch starts the ranks of a job on this host: the library behind `goccl run`.
//
// Every process gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), a
// fresh GOCCL_SECRET and a GOCCL_RUN_ID. Its output is copied line by line, with the rank as prefix. When one rank
// fails, the others have one second to report errors before SIGTERM, and then SIGKILL. The error names the first rank
// that failed and how it ended.
//
// # Lifetime
//
// Each rank leads a process group. The rest of the group is killed when the rank has ended, so no grandchild is left.
// If the launcher itself is killed, the kernel kills the ranks (PR_SET_PDEATHSIG), and a small process that watches the
// launcher kills their descendants. Only processes that left the group by setsid, as daemons do, survive.
package launch
