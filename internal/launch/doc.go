// Package launch starts the ranks of a job on this host: the library behind `goccl run`.
//
// Every process gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), a fresh GOCCL_SECRET and a
// GOCCL_RUN_ID. Its output is passed on line by line behind its rank. When one rank fails, the others get a second to say what they saw, then SIGTERM,
// then SIGKILL; the error says which rank was first and how it ended.
//
// # Lifetime
//
// Each rank leads a process group, and what is left of the group is killed when the rank has ended, so no grandchild stays behind. If the launcher itself
// is killed, the kernel kills the ranks (PR_SET_PDEATHSIG), and a small process that watches the launcher kills what they have started. Out of reach is only what
// has left its group by setsid, as daemons do.
package launch
