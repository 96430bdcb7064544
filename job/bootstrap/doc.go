// Package bootstrap connects the ranks of a job. It joins the ranks, gives each the addresses and hosts of all, and
// then carries small control messages (handles, addresses, votes) between them. It is not a data path.
//
// There are two implementations of [Bootstrap]. [Join] joins processes, on one host or many; [NewLocalGroup] joins
// goroutines of one process, with the same semantics and with failure injection, for tests and for single-process jobs.
//
// # Joining
//
// A [UniqueID] contains the addresses of a root's listeners and a 256-bit secret. The process that calls [NewUniqueID]
// serves the root; every rank calls [JoinID] with the id. Alternatively every rank calls [JoinAddress] with one
// address, and rank 0 listens there. [FromEnv] reads the environment that torchrun, mpirun, srun and Kubernetes
// provide, and [Join] does all steps.
//
//  1. A rank dials the root and both prove, by HMAC-SHA-256 over a transcript of both greetings, that they know the
//     secret; the same greetings carry a key exchange.
//  2. The rank sends the root its listening addresses: one of each interface that may lead to other hosts. The root
//     answers with the address of a parent, one of the ranks that have joined, or itself (assembly.go, tree.go).
//  3. When all ranks have joined, the root closes its listeners and sends the table to every rank.
//  4. Ranks connect to their neighbours in the overlay (ring.go): over an abstract unix socket if it is reachable, else
//     over TCP, with the same proof.
//  5. Every rank reports that it is ready, and the lowest rank that it has met on a unix socket. The root sends go and
//     the host of each rank, and ends.
//
// Two ranks are on one host if they have met on a unix socket: then they can exchange descriptors and share memory.
// This requires one network namespace and one user; host names do not matter. GOCCL_HOSTID or NCCL_HOSTID overrides the
// detection. A process that joins also keeps one idle thread and one page for the notice of its death.
//
// # The overlay
//
// Below 128 ranks (sparseFrom) all ranks are neighbours. That costs each process one socket per peer. In exchange every
// rank detects the death of another as a hang-up on its own socket, and no message is ever forwarded. The root is the
// parent of all ranks.
//
// From 128 ranks on, no process has a descriptor for each rank:
//
//   - The root keeps few connections. Its frames go down the tree, and frames for it go up. Each rank of the tree
//     detects the death of those below it, and reports it to the root.
//   - Each rank has 2⌈log₂ n⌉ neighbours, and makes another connection when it first sends to a peer (cached.go).
//     Messages still go straight to their receiver, so the death of a third rank loses none. Listeners stay open.
//   - Reports of deaths, goodbyes and ranks that leave a group are passed on by all ranks (membership.go). The
//     neighbours watch each other. They are not a star around the root, which would need a descriptor for each rank
//     again and would be one more process whose death matters, nor a tree, which one death cuts: with 2⌈log₂ n⌉
//     watchers of each rank and that many disjoint paths between two, ranks learn of a death as long as any path is
//     left.
//
// # The protocol and its I/O
//
// What ranks decide is in state machines without I/O, which the transcripts in testdata show at work: assembly (who has
// joined), membership (who is alive) and gather (the collectives). The code around them only carries out what they
// decide: root and rootClient for the joining, endpoint and overlay for the life of a job.
//
// # Failure
//
// Every step ends at its deadline (30 s; [WithTimeout], GOCCL_TIMEOUT) or with its context. Joining as a whole has one
// deadline, so a rank may be stopped (SIGSTOP) for part of that time. An error that cannot resolve itself ends the
// joining at once on all ranks, with the details of both sides: two processes with one rank, different world sizes, a
// process at its limit of open files. Rank 0 rejects an address that is not its host's.
//
// A dead rank is reported once to every subscriber of [Bootstrap.Failures] and fails every pending and later operation
// that needs it with [ErrPeerDead]. The other pairs keep working, and [Bootstrap.Sub] over the survivors gives an
// intact Bootstrap again. A rank that closes is not a failure: operations that need it return [ErrClosed].
//
// On one host the kernel itself marks a killed process in a page that its peers watch, because a process with GPU
// memory mapped can take seconds to hang up. The death of a peer on another host is detected by its socket. A rank that
// detects a death may exit, and then its peers detect its death too. Therefore ranks tell each other which peer they
// give up before they act on it, so that all ranks blame the first death.
//
// A rank that joins after the job of its UniqueID failed gets the reason from the root for some seconds. After that, or
// if the root's process is gone, the rank gives up once the address has refused it for three seconds. At an agreed
// address ranks may start before rank 0. There a refusal is not an error and the deadline applies; the error then names
// rank 0. Attempts of one job that the launcher numbers (TORCHELASTIC_RESTART_COUNT, on one host) do not mix at an
// address: a process of an older attempt is refused, and a process of a newer attempt waits for its own root. A stopped
// process (SIGSTOP) counts as dead only after it has been silent for the stall timeout. A partitioned one is given up
// after setting.Unreachable.
//
// # Trust
//
// Ranks that know the secret trust each other; a peer without it does not pass the greeting. After the greeting every
// frame is encrypted and authenticated, with a counter and its header, under keys of the connection (AES-GCM; an X25519
// exchange and the secret). Listeners bind chosen addresses, never a wildcard. An address without GOCCL_SECRET gives a
// secret derived from the address and the user's id; a warning is logged once. Even then a passive listener on the
// network reads nothing, but an attacker who can connect, or modify traffic, can impersonate a rank. An attacker who
// can reach a listener can occupy a bounded number of connections, each for five seconds; the oldest is dropped first.
//
// # Threads and lifetime
//
// Several goroutines may use a Bootstrap. Send and Recv match by (peer, tag) in any order; messages of one (peer, tag)
// keep their order. AllGather and Barrier are collective: every rank makes the same calls in the same order, one at a
// time per Bootstrap. From 64 ranks on, 16 in a sparse overlay, they take log₂ n steps (gather.go). A Sub shares its
// parent's connections, which stay open until the last Bootstrap that shares them is closed.
package bootstrap
