// Package bootstrap answers the first question of a job: who is in it, and how do they reach each other. It joins the ranks, tells each the
// addresses and hosts of all, and then carries small control messages (handles, addresses, votes) between them. It is not a data path.
//
// There are two implementations of [Bootstrap]. [NewTCP] joins processes, on one host or many; [NewLocalGroup] joins goroutines of one
// process, with the same semantics and with failure injection, for tests and for single-process jobs.
//
// # Joining
//
// A [UniqueID] names a root listener and carries a 256-bit secret. The process that calls [NewUniqueID] serves the root; every rank calls
// [TCP.Init] with the id. Alternatively every rank calls [TCP.InitAddress] with one address, and rank 0 listens there. [FromEnv] reads what
// torchrun, mpirun, srun and Kubernetes put in the environment, and [Join] does everything.
//
//  1. A rank dials the root and both prove, by HMAC-SHA-256 over a transcript of both greetings, that they know the secret; the same greetings carry an exchange of keys.
//  2. The rank tells the root where it listens.
//  3. When all ranks are there the root closes its listeners and sends everyone the table.
//  4. Ranks open a full mesh: a higher rank dials a lower one, over an abstract unix socket if that leads there, else over TCP, with the same proof.
//  5. Everyone reports ready, and whom it has met on a unix socket; the root says go, and who is on which host, and ends.
//
// Ranks are on one host if they have met on a unix socket: then they can hand each other descriptors and share memory. That takes one network namespace
// and one user; what their hosts are called does not matter. GOCCL_HOSTID or NCCL_HOSTID says it instead.
//
// A full mesh costs each process one socket per peer. In exchange the death of a rank is seen by every other as a hang-up on its own socket,
// and no message is ever forwarded. A process that joins also keeps one idle thread and one page for the notice of its death.
//
// # Failure
//
// Every step ends by its deadline (30 s; [WithTimeout], GOCCL_TIMEOUT) or by its context, and joining as a whole by one: a rank may be stopped
// meanwhile for any part of that. What cannot come right ends the joining at once on all ranks, with what each claims: two processes of one rank, world
// sizes that differ, a process at its limit of open files. Rank 0 refuses an address that is not its host's. A dead rank is reported once to
// every subscriber of [Bootstrap.Failures] and fails every pending and later operation that needs it with [ErrPeerDead]; the other pairs keep working, and
// [Bootstrap.Sub] over the survivors gives a whole Bootstrap again. A rank that closes is not a failure: operations that need it return [ErrClosed].
// On one host the kernel itself marks a killed process in a page that its peers watch, because a process with a GPU's memory mapped can take
// seconds to hang up; a peer of another host is noticed by its socket.
// Who sees a death may exit, and be seen to die in its turn: ranks tell each other whom they give up before they act on it, so that everybody
// blames the first.
// A rank that comes after the job of its UniqueID failed hears why from the root for some seconds; after that, and when the root's process is
// gone, it gives up as soon as the address has refused it for three seconds. At an agreed address ranks may come before rank 0, so there a
// refusal says nothing and the deadline counts; then rank 0 is named. Attempts of one job that the launcher numbers (TORCHELASTIC_RESTART_COUNT, on one
// host) do not mix at an address: a process of an older attempt is refused, and one of a newer attempt waits for its own root.
// A stopped process (SIGSTOP) is not dead until it has been silent for the stall timeout; a partitioned one is given up after three seconds.
//
// # Trust
//
// Ranks that know the secret trust each other; nobody else gets past the greeting. After it every frame is encrypted and authenticated, with a counter
// and its header, under keys of the connection (AES-GCM; an X25519 exchange and the secret). Listeners bind chosen addresses, never a wildcard. An address
// without GOCCL_SECRET gives a secret derived from the address and the user's id, which is warned of once: who listens to the network reads nothing even
// then, but who can connect, or change what is on its way, can pass for a rank. Whoever can reach a listener can cost it a bounded number of connections,
// each for five seconds; the oldest goes first.
//
// # Threads and lifetime
//
// A Bootstrap may be used by several goroutines. Send and Recv match by (peer, tag) in any order; messages of one (peer, tag) keep their
// order. AllGather and Barrier are collective: every rank makes the same calls in the same order, one at a time per Bootstrap. A Sub
// shares its parent's connections, and those live until the last of the family is closed.
package bootstrap
