package bootstrap

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/internal/proc"
	"github.com/goccl/goccl/internal/setting"
)

// Env is the description of the job that a launcher passes to this process.
type Env struct {
	Rank, WorldSize int
	// LocalRank and LocalSize are the position among the ranks of this host and their number; -1 and 0 if unknown.
	LocalRank, LocalSize int
	// MasterAddr and MasterPort are the address where rank 0 listens; "" and 0 if the ranks meet on Socket.
	MasterAddr string
	MasterPort int
	// Socket is an abstract unix socket, "@name", where the ranks of a job on one host meet.
	Socket string
	// Launcher is the source of the ranks: "torchrun", "openmpi", "mvapich", "pmi", "pmix", "slurm" or "kubernetes".
	Launcher string
}

// Address returns the rendezvous in the form that JoinAddress takes.
func (e Env) Address() string {
	if e.Socket != "" {
		return unixPrefix + e.Socket
	}
	return net.JoinHostPort(e.MasterAddr, strconv.Itoa(e.MasterPort))
}

// ErrNoLauncher means that the environment contains no rank.
var ErrNoLauncher = errors.New("no launcher's variables are set; start the program with torchrun, mpirun, srun or " +
	"`goccl run`, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT")

// FromEnv reads the launcher's variables. It takes the ranks from the first of
//
//	torchrun, goccl run  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
//	Open MPI             OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE
//	MVAPICH              MV2_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE
//	MPICH, Intel (Hydra) PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS
//	Slurm                SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID
//	PMIx                 PMIX_RANK, with the size from WORLD_SIZE
//	Kubernetes           JOB_COMPLETION_INDEX (indexed Job), with the size from WORLD_SIZE or PET_NNODES
//	Kubeflow             PET_NODE_RANK, PET_NNODES with PET_NPROC_PER_NODE=1
//
// and the rendezvous from the first of
//
//	NCCL_COMM_ID         host:port
//	MSCCLPP_MASTER_ADDR  with MSCCLPP_MASTER_PORT
//	MASTER_ADDR          with MASTER_PORT
//	PET_MASTER_ADDR      with PET_MASTER_PORT
//	Slurm                the first host of SLURM_STEP_NODELIST, a port derived from the job and step
//	one host             an abstract unix socket whose name is derived from the job (see below)
//
// On one host (the launcher reports that all ranks are local, or there is one rank) no port is needed. torchrun's agent
// already listens on MASTER_PORT, so the ranks of a torchrun job on one host meet on a unix socket named by
// MASTER_ADDR, MASTER_PORT, the run and its restart count; on several hosts they use a port derived from the first
// three, in 20000–29999. Ranks of an mpirun job without an address meet on a socket named by the job id of Open MPI,
// PMIx, Hydra or Slurm, else by the process id of the launcher. Every derived name includes the user's id. MASTER_ADDR
// and MASTER_PORT override the derived address.
func FromEnv() (Env, error) { return fromEnv(processEnvironment) }

var processEnvironment = environment{get: setting.Get, ancestor: findAncestor}

// environment is the input of FromEnv, which tests replace.
type environment struct {
	get func(string) string
	// ancestor returns the process id of the closest ancestor whose name is in names, or 0.
	ancestor func(names ...string) int
}

func fromEnv(v environment) (Env, error) {
	for _, l := range launchers {
		if v.get(l.rank) == "" {
			continue
		}
		e, err := l.read(v)
		if err != nil {
			return Env{}, fail("FromEnv", -1, -1, err)
		}
		if e.WorldSize == 0 && l.optional {
			continue
		}
		if err := e.check(); err != nil {
			return Env{}, fail("FromEnv", -1, -1, fmt.Errorf("%s: %w", l.name, err))
		}
		if err := rendezvous(v, &e); err != nil {
			return Env{}, fail("FromEnv", e.Rank, -1, fmt.Errorf("%s: %w", l.name, err))
		}
		return e, nil
	}
	return Env{}, fail("FromEnv", -1, -1, ErrNoLauncher)
}

// launcher names the variables of one launcher. Where it names several, with spaces between them, the first that is set
// counts.
type launcher struct {
	name, rank, size, local, localSize string
	// optional launchers are skipped if they provide a rank but no size.
	optional bool
}

var launchers = []launcher{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", true},
	{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE", false},
	{"mvapich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
		false},
	{"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID PMI_LOCAL_RANK", "MPI_LOCALNRANKS PMI_LOCAL_SIZE", false},
	{"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS SLURM_NTASKS SLURM_NPROCS", "SLURM_LOCALID", "", false},
	{"pmix", "PMIX_RANK", "PMIX_SIZE WORLD_SIZE", "PMIX_LOCAL_RANK LOCAL_RANK", "PMIX_LOCAL_SIZE LOCAL_WORLD_SIZE", false},
	{"kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE PET_NNODES", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
	{"kubernetes", "PET_NODE_RANK", "PET_NNODES", "", "", false},
}

func (l launcher) read(v environment) (e Env, err error) {
	e = Env{Launcher: l.name, LocalRank: -1}
	var errs [4]error
	e.Rank, errs[0] = number(v, l.rank)
	e.WorldSize, errs[1] = firstNumber(v, 0, l.size)
	e.LocalRank, errs[2] = firstNumber(v, -1, l.local)
	e.LocalSize, errs[3] = firstNumber(v, 0, l.localSize)
	if err := cmp.Or(errs[:]...); err != nil {
		return e, err
	}
	if e.WorldSize == 0 && !l.optional {
		return e, fmt.Errorf("%w: %s is set but not the number of ranks (%s)", ErrInvalid, l.rank,
			strings.ReplaceAll(l.size, " ", " or "))
	}
	switch {
	case l.name == "slurm" && e.WorldSize > 1 &&
		firstOf(v, "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST") == "":
		err = fmt.Errorf("%w: SLURM_PROCID is set and no step (SLURM_STEP_ID): this process is the batch script's own, not "+
			"one of %d tasks; start the program with srun, or unset SLURM_PROCID", ErrInvalid, e.WorldSize)
	case l.name == "slurm":
		err = e.readSlurm(v)
	case l.rank == "PET_NODE_RANK" || l.rank == "JOB_COMPLETION_INDEX":
		if n := v.get("PET_NPROC_PER_NODE"); n != "" && n != "1" && v.get("WORLD_SIZE") == "" {
			err = fmt.Errorf("%w: PET_NPROC_PER_NODE=%s, but nothing tells the processes of a node apart; start them with "+
				"torchrun or `goccl run`", ErrInvalid, n)
		}
	}
	return e, err
}

// readSlurm computes the local size from "4(x2),3": nodes 0 and 1 have 4 tasks, node 2 has 3.
func (e *Env) readSlurm(v environment) error {
	tasks := firstOf(v, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
	if tasks == "" || v.get("SLURM_NODEID") == "" {
		return nil
	}
	node, err := number(v, "SLURM_NODEID")
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(tasks, ",") {
		count, times := part, 1
		if i := strings.Index(part, "(x"); i >= 0 && strings.HasSuffix(part, ")") {
			if times, err = strconv.Atoi(part[i+2 : len(part)-1]); err != nil || times < 1 {
				return fmt.Errorf("%w: tasks per node %q", ErrInvalid, tasks)
			}
			count = part[:i]
		}
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return fmt.Errorf("%w: tasks per node %q", ErrInvalid, tasks)
		}
		if node < times {
			e.LocalSize = n
			return nil
		}
		node -= times
	}
	return nil
}

func (e *Env) check() error {
	switch {
	case e.WorldSize < 1 || e.WorldSize > MaxWorldSize:
		return fmt.Errorf("%w: %d ranks, want 1 to %d", ErrWorldSize, e.WorldSize, MaxWorldSize)
	case e.Rank < 0 || e.Rank >= e.WorldSize:
		return fmt.Errorf("%w: rank %d of %d", ErrRankRange, e.Rank, e.WorldSize)
	case e.LocalSize < 0 || e.LocalSize > e.WorldSize || e.LocalSize > 0 && e.LocalRank >= e.LocalSize || e.LocalRank < -1:
		return fmt.Errorf("%w: local rank %d of %d, world size %d", ErrRankRange, e.LocalRank, e.LocalSize, e.WorldSize)
	}
	return nil
}

// rendezvous determines where the ranks meet.
func rendezvous(v environment, e *Env) error {
	oneHost := e.LocalSize == e.WorldSize || e.WorldSize == 1
	if s := v.get("NCCL_COMM_ID"); s != "" {
		a, err := parseAddress(s)
		if err != nil {
			return fmt.Errorf("NCCL_COMM_ID: %w", err)
		}
		e.MasterAddr, e.MasterPort = a.host, int(a.port)
		return nil
	}
	for _, prefix := range []string{"MSCCLPP_", "", "PET_"} {
		addr := v.get(prefix + "MASTER_ADDR")
		if addr == "" {
			continue
		}
		port, err := number(v, prefix+"MASTER_PORT")
		if err != nil || port < 1 || port > 65535 {
			return fmt.Errorf("%w: %sMASTER_ADDR=%s needs %sMASTER_PORT, 1 to 65535", ErrInvalid, prefix, addr, prefix)
		}
		// The store of an elastic agent, or of this job's torchrun, already listens on that port.
		if run := firstOf(v, "TORCHELASTIC_RUN_ID", "GOCCL_RUN_ID"); prefix == "" && run != "" {
			if oneHost {
				e.Socket = jobName("torchrun", addr, strconv.Itoa(port), run, v.get("TORCHELASTIC_RESTART_COUNT"))
				return nil
			}
			// without the restart count, because each host's agent counts separately
			port = derivedPort(jobName("torchrun", addr, strconv.Itoa(port), run))
		}
		e.MasterAddr, e.MasterPort = addr, port
		return nil
	}
	return derivedRendezvous(v, e, oneHost)
}

// derivedRendezvous derives a rendezvous for launchers that give no address.
func derivedRendezvous(v environment, e *Env, oneHost bool) error {
	job := jobID(v)
	if nodes := firstOf(v, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"); nodes != "" && !oneHost {
		host, more, err := firstHost(nodes)
		if err != nil {
			return err
		}
		if job == "" {
			return fmt.Errorf("%w: SLURM has given the job a node list and no id", ErrInvalid)
		}
		if more {
			e.MasterAddr, e.MasterPort = host, derivedPort(jobName("slurm", job))
			return nil
		}
		oneHost = true
	}
	if !oneHost {
		return fmt.Errorf("%w: no rendezvous for %d ranks, of which %d are on this host: set MASTER_ADDR to the host of "+
			"rank 0 and MASTER_PORT to a free port there (mpirun -x, srun --export)",
			ErrInvalid, e.WorldSize, e.LocalSize)
	}
	if job == "" && e.WorldSize == 1 {
		job = "single " + strconv.Itoa(os.Getpid())
	}
	if job == "" {
		pid := v.ancestor("hydra_pmi_proxy", "hydra_bstrap_proxy", "mpiexec.hydra", "mpiexec", "mpirun", "orterun", "prterun",
			"orted", "prted", "slurmstepd", "mpispawn", "mpirun_rsh")
		if pid == 0 {
			return fmt.Errorf("%w: nothing in the environment tells this job from others: set MASTER_ADDR=127.0.0.1 and "+
				"MASTER_PORT", ErrInvalid)
		}
		job = "ancestor " + strconv.Itoa(pid)
	}
	e.Socket = jobName("job", job)
	return nil
}

// jobID returns an id that is equal on all ranks of a job and different between jobs.
func jobID(v environment) string {
	if id := firstOf(v, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid", "PMI_JOBID",
		"MV2_COMM_WORLD_JOBID", "MPIRUN_ID"); id != "" {
		return id
	}
	if id := firstOf(v, "SLURM_JOB_ID", "SLURM_JOBID"); id != "" && v.get("SLURM_PROCID") != "" {
		return id + "." + firstOf(v, "SLURM_STEP_ID", "SLURM_STEPID")
	}
	return ""
}

// jobName derives a socket name that is specific to this user and this job.
func jobName(parts ...string) string {
	h := sha256.New()
	for _, p := range append(parts, strconv.Itoa(os.Geteuid())) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return "@goccl-job-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// derivedPort returns a port below the ephemeral range of Linux, so that no outgoing connection occupies it.
func derivedPort(name string) int {
	sum := sha256.Sum256([]byte(name))
	return 20000 + int(binary.LittleEndian.Uint32(sum[:])%10000)
}

func firstOf(v environment, names ...string) string {
	for _, n := range names {
		if s := v.get(n); s != "" {
			return s
		}
	}
	return ""
}

func number(v environment, name string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(v.get(name)))
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%q is not a number", ErrInvalid, name, v.get(name))
	}
	return n, nil
}

func firstNumber(v environment, missing int, names string) (int, error) {
	for n := range strings.FieldsSeq(names) {
		if v.get(n) != "" {
			return number(v, n)
		}
	}
	return missing, nil
}

// Join joins the job that env describes. With a world size of one it opens no connection.
func Join(ctx context.Context, env Env, opts ...Option) (Bootstrap, error) {
	if err := env.check(); err != nil {
		return nil, fail("Join", env.Rank, -1, err)
	}
	if env.WorldSize == 1 {
		if _, err := newConfig(opts); err != nil {
			return nil, fail("Join", env.Rank, -1, err)
		}
		return NewLocal(1, opts...).Ranks[0], nil
	}
	return JoinAddress(ctx, env.Address(), env.Rank, env.WorldSize, opts...)
}

// findAncestor searches the ancestors from the parent process upwards. The parent alone is not enough, because a
// launcher may start a program through shells and wrappers.
func findAncestor(names ...string) int {
	for pid, depth := os.Getppid(), 0; pid > 1 && depth < 32; depth++ {
		stat, err := proc.Read("/proc", pid)
		if err != nil {
			return 0
		}
		if slices.ContainsFunc(names, func(n string) bool { return n[:min(len(n), 15)] == stat.Name }) {
			return pid
		}
		pid = stat.Parent
	}
	return 0
}

// Slurm's compact form of a list of hosts: "node[01-04,7],x3" is node01 node02 node03 node04 node7 x3. A name may have
// several brackets; the rightmost varies fastest.
var (
	hostNumbers = regexp.MustCompile(`\[\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*\]`)
	hostName    = regexp.MustCompile(`([^][,]|` + hostNumbers.String() + `)+`)
	hostList    = regexp.MustCompile(`^` + hostName.String() + `(,` + hostName.String() + `)*$`)
)

// firstHost returns the first host of Slurm's list, and whether there are others. Numbers keep the width of the start
// of their range.
func firstHost(list string) (host string, more bool, err error) {
	if !hostList.MatchString(list) {
		return "", false, fmt.Errorf("%w: hostlist %q", ErrInvalid, list)
	}
	name := hostName.FindString(list)
	more = name != list
	host = hostNumbers.ReplaceAllStringFunc(name, func(numbers string) string {
		first, _, others := strings.Cut(strings.Trim(numbers, "[]"), ",")
		from, to, isRange := strings.Cut(first, "-")
		lo, _ := strconv.Atoi(from)
		hi, _ := strconv.Atoi(to)
		if isRange && hi < lo {
			err = fmt.Errorf("%w: hostlist %q: %q is not a range of numbers", ErrInvalid, list, first)
		}
		more = more || others || isRange && hi > lo
		return from
	})
	return host, more, err
}
