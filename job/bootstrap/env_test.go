package bootstrap

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/test/testutil"
)

func TestFromEnv(t *testing.T) {
	socket := func(parts ...string) string { return jobName(parts...) }
	port := func(parts ...string) int { return derivedPort(jobName(parts...)) }
	for _, c := range []struct {
		name string
		env  string
		want Env
		err  error
	}{
		{name: "torchrun by hand", env: "RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 MASTER_ADDR=10.0.0.1 " +
			"MASTER_PORT=29500",
			want: Env{3, 8, 3, 4, "10.0.0.1", 29500, "", "torchrun"}},
		{name: "torchrun on one host", env: "RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 MASTER_ADDR=localhost " +
			"MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0",
			want: Env{3, 8, 3, 8, "", 0, socket("torchrun", "localhost", "29500", "none", "0"), "torchrun"}},
		{name: "torchrun on two hosts", env: "RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 MASTER_ADDR=n1 " +
			"MASTER_PORT=29500 TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=2",
			want: Env{3, 8, 3, 4, "n1", port("torchrun", "n1", "29500", "x"), "", "torchrun"}},
		{name: "torchrun without an address", env: "RANK=1 WORLD_SIZE=2", err: ErrInvalid},
		{name: "Open MPI on one host", env: "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=prterun-h-77@1 PMIX_RANK=1",
			want: Env{1, 2, 1, 2, "", 0, socket("job", "prterun-h-77@1"), "openmpi"}},
		{name: "Open MPI on two hosts", env: "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=5000",
			want: Env{1, 4, 1, 2, "h0", 5000, "", "openmpi"}},
		{name: "Open MPI on two hosts without an address", env: "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 " +
			"OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1", err: ErrInvalid},
		{name: "Open MPI without a job id", env: "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 " +
			"OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
			want: Env{0, 2, 0, 2, "", 0, socket("job", "ancestor 4711"), "openmpi"}},
		{name: "PMIx", env: "PMIX_RANK=1 PMIX_NAMESPACE=ns WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 LOCAL_RANK=1",
			want: Env{1, 2, 1, 2, "", 0, socket("job", "ns"), "pmix"}},
		{name: "PMIx without a size", env: "PMIX_RANK=1 PMIX_NAMESPACE=ns", err: ErrInvalid},
		{name: "MPICH", env: "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4",
			want: Env{2, 4, 2, 4, "", 0, socket("job", "ancestor 4711"), "pmi"}},
		{name: "Intel MPI with an address", env: "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 " +
			"MSCCLPP_MASTER_ADDR=10.1.1.1 MSCCLPP_MASTER_PORT=6000 MASTER_ADDR=x MASTER_PORT=1",
			want: Env{2, 4, 0, 2, "10.1.1.1", 6000, "", "pmi"}},
		{name: "MVAPICH", env: "MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=0 " +
			"MV2_COMM_WORLD_LOCAL_SIZE=2 MPIRUN_ID=99",
			want: Env{0, 2, 0, 2, "", 0, socket("job", "99"), "mvapich"}},
		{name: "Slurm on four hosts", env: "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_NODEID=2 " +
			"SLURM_STEP_NODELIST=node[07-09],x3 SLURM_STEP_TASKS_PER_NODE=2(x4) SLURM_JOB_ID=17 SLURM_STEP_ID=0",
			want: Env{5, 8, 1, 2, "node07", port("slurm", "17.0"), "", "slurm"}},
		{name: "Slurm on one host", env: "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_NODEID=0 " +
			"SLURM_STEP_NODELIST=node07 SLURM_STEP_TASKS_PER_NODE=2 SLURM_JOB_ID=17 SLURM_STEP_ID=3",
			want: Env{1, 2, 1, 2, "", 0, socket("job", "17.3"), "slurm"}},
		{name: "Slurm with PMI2", env: "PMI_RANK=5 PMI_SIZE=8 SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_NODELIST=a[1-2] " +
			"SLURM_JOB_ID=17 SLURM_STEP_ID=0",
			want: Env{5, 8, -1, 0, "a1", port("slurm", "17.0"), "", "pmi"}},
		{name: "Slurm without srun", env: "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=17 " +
			"SLURM_JOB_NODELIST=node[07-09] SLURM_TASKS_PER_NODE=4(x2)", err: ErrInvalid},
		{name: "Slurm, broken node list", env: "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=a[1- SLURM_JOB_ID=1",
			err: ErrInvalid},
		{name: "Kubernetes indexed job", env: "JOB_COMPLETION_INDEX=1 WORLD_SIZE=2 MASTER_ADDR=job-0.svc MASTER_PORT=29500",
			want: Env{1, 2, -1, 0, "job-0.svc", 29500, "", "kubernetes"}},
		{name: "Kubernetes without a size", env: "JOB_COMPLETION_INDEX=1 MASTER_ADDR=job-0.svc MASTER_PORT=29500",
			err: ErrInvalid},
		{name: "Kubeflow, one process a node", env: "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=m " +
			"PET_MASTER_PORT=29500",
			want: Env{1, 2, -1, 0, "m", 29500, "", "kubernetes"}},
		{name: "Kubeflow, several processes a node", env: "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=8 " +
			"PET_MASTER_ADDR=m PET_MASTER_PORT=29500", err: ErrInvalid},
		{name: "Kubeflow with torchrun", env: "PET_NODE_RANK=0 PET_NNODES=2 PET_NPROC_PER_NODE=8 RANK=3 WORLD_SIZE=16 " +
			"LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 MASTER_ADDR=m MASTER_PORT=1",
			want: Env{3, 16, 3, 8, "m", 1, "", "torchrun"}},
		{name: "NCCL_COMM_ID wins", env: "RANK=1 WORLD_SIZE=2 NCCL_COMM_ID=[fd00::1]:77 MASTER_ADDR=x MASTER_PORT=9",
			want: Env{1, 2, -1, 0, "fd00::1", 77, "", "torchrun"}},
		{name: "bad NCCL_COMM_ID", env: "RANK=1 WORLD_SIZE=2 NCCL_COMM_ID=nonsense", err: ErrInvalid},
		{name: "nothing", env: "", err: ErrNoLauncher},
		{name: "a rank alone is not torchrun", env: "RANK=1", err: ErrNoLauncher},
		{name: "not a number", env: "RANK=one WORLD_SIZE=2", err: ErrInvalid},
		{name: "rank too large", env: "RANK=2 WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=1", err: ErrRankRange},
		{name: "negative size", env: "RANK=0 WORLD_SIZE=-2 MASTER_ADDR=m MASTER_PORT=1", err: ErrWorldSize},
		{name: "bad port", env: "RANK=0 WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=99999", err: ErrInvalid},
		{name: "local rank too large", env: "RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=1",
			err: ErrRankRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			vars := map[string]string{}
			for _, kv := range strings.Fields(c.env) {
				k, v, _ := strings.Cut(kv, "=")
				vars[k] = v
			}
			got, err := fromEnv(environment{
				get:      func(k string) string { return vars[k] },
				ancestor: func(...string) int { return 4711 },
			})
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Fatalf("got %+v, %v; want %v", got, err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestFirstHost(t *testing.T) {
	type first struct {
		host string
		more bool
	}
	for in, want := range map[string]first{
		"a":                      {"a", false},
		"a,b":                    {"a", true},
		"node[01-04,7],x3":       {"node01", true},
		"a[1-2]b[08-10]":         {"a1b08", true},
		"a[3]b[08-10]":           {"a3b08", true},
		"a[3]b[08-08]":           {"a3b08", false},
		"r[1,3]-n[0-1].x,h":      {"r1-n0.x", true},
		"[5-6]":                  {"5", true},
		"[5]":                    {"5", false},
		"gpu-a100-[009-011],cpu": {"gpu-a100-009", true},
		"a[1-99999999]":          {"a1", true},
		"a[0-9999][0-9999]":      {"a00", true},
	} {
		if host, more, err := firstHost(in); err != nil || host != want.host || more != want.more {
			t.Errorf("%q: got %q %t, %v", in, host, more, err)
		}
	}
	for _, in := range []string{"", "a[", "a]", "a[1", "a[1-]", "a[2-1]", "a[x]", "a[[1]]", ",a", "a,", "a,,b", "a[]",
		"a[-1]", "a[12345678901]"} {
		if host, _, err := firstHost(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %q, %v", in, host, err)
		}
	}
}

func FuzzHostlist(f *testing.F) {
	for _, s := range []string{"node[01-04,7],x3", "a[1-2]b[08-10]", "[", "a,b", "a[0-65536]"} {
		f.Add(s)
	}
	mutate.Fuzz(f, func(t *testing.T, s string) {
		host, _, err := firstHost(s)
		if err != nil {
			return
		}
		if host == "" || strings.ContainsAny(host, "[],") {
			t.Fatalf("%q begins with %q", s, host)
		}
		// A host is a list of itself.
		if again, more, err := firstHost(host); err != nil || more || again != host {
			t.Fatalf("%q: %q then %q, %t, %v", s, host, again, more, err)
		}
	})
}

func TestFindAncestor(t *testing.T) {
	if findAncestor("no such program") != 0 {
		t.Fatal("found a launcher")
	}
}

func TestJoin(t *testing.T) {
	for _, e := range []Env{
		{Socket: jobName("test", t.Name()), WorldSize: 3},
		{MasterAddr: "127.0.0.1", MasterPort: testutil.Port(t), WorldSize: 3},
		{MasterAddr: "localhost", MasterPort: testutil.Port(t), WorldSize: 3},
		{WorldSize: 1},
	} {
		// Twice: a second communicator meets at the same address as soon as the first has been set up.
		for range 2 {
			var wg sync.WaitGroup
			bs := make([]Bootstrap, e.WorldSize)
			for r := range e.WorldSize {
				wg.Go(func() {
					mine := e
					mine.Rank, mine.LocalRank = r, -1
					b, err := Join(context.Background(), mine, quiet())
					if err != nil {
						t.Error(err)
						return
					}
					bs[r] = b
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
			closeAll(bs)
		}
	}
}

// TestSlurmWithoutSrun: the error of a batch script's own process names the remedy.
func TestSlurmWithoutSrun(t *testing.T) {
	vars := map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "17"}
	_, err := fromEnv(environment{get: func(name string) string { return vars[name] }})
	if err == nil || !strings.Contains(err.Error(), "start the program with srun") {
		t.Error(err)
	}
}
