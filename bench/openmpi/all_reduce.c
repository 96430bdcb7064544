/* Measures and checks MPI_Allreduce (sum of floats), size by size, as `goccl perf all_reduce` measures goccl's, and
 * prints a line of JSON for each size:
 *
 * {"library":"openmpi","version":"...","ranks":8,"size_bytes":1024,"iterations":1000,"batches":5,"min_us":..,
 *  "time_us":..,"wrong":0}
 *
 *   all_reduce [-s SIZE,SIZE,...] [-c BATCHES] [-t BATCH_MS] [-i ITERATIONS] [-w WARMUP]
 *
 * 1. warm-up   also determines the number of operations in a batch of BATCH_MS milliseconds, unless ITERATIONS is given
 * 2. batches   a barrier, then operations back to back; the time of an operation is the slowest rank's time of the
 *    batch, divided by the number of operations
 * 3. check     one more operation, into an output that was overwritten; every element of every rank is compared
 *
 * time_us is the median over batches, min_us the smallest. Inputs are small whole numbers, so sums are exact in any
 * order.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { max_sizes = 64, max_batches = 1000, page = 4096, period = 1021 };

static float element(int rank, size_t i) { return (float)((i % period) * 7 % 128) - 64 + (float)rank; }

static double run(const float *in, float *out, size_t count, int iterations) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < iterations; i++) MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  double took = (MPI_Wtime() - start) / iterations, slowest;
  MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static long long check(const float *in, float *out, size_t count, int ranks) {
  memset(out, 0xff, count * sizeof *out);
  MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  long long wrong = 0, all;
  for (size_t i = 0; i < count; i++) {
    float want = 0;
    for (int r = 0; r < ranks; r++) want += element(r, i);
    wrong += out[i] != want;
  }
  MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

static float *buffer(size_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, page, bytes + page) != 0) {
    fprintf(stderr, "all_reduce: no memory for a buffer of %zu bytes\n", bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(p, 0, bytes + page);
  return p;
}

static void usage(void) {
  fprintf(stderr, "usage: all_reduce [-s SIZE,...] [-c BATCHES] [-t BATCH_MS] [-i ITERATIONS] [-w WARMUP]\n");
  MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int argc, char **argv) {
  size_t sizes[max_sizes] = {8, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
                             1 << 20, 4 << 20, 16 << 20, 64 << 20};
  int nsizes = 12, batches = 5, fixed = 0, warmup = 5, rank, ranks, bad = 0, length;
  double batch = 0.02;
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int o; (o = getopt(argc, argv, "s:c:t:i:w:")) != -1;) switch (o) {
      case 's':
        nsizes = 0;
        for (char *at = strtok(optarg, ","); at; at = strtok(NULL, ",")) {
          if (nsizes == max_sizes) usage();
          sizes[nsizes++] = strtoull(at, NULL, 10);
        }
        break;
      case 'c': batches = atoi(optarg); break;
      case 't': batch = atof(optarg) / 1e3; break;
      case 'i': fixed = atoi(optarg); break;
      case 'w': warmup = atoi(optarg); break;
      default: usage();
    }
  if (optind != argc || nsizes < 1 || batches < 1 || batches > max_batches || warmup < 1) usage();
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\"\n")] = 0;
  for (int s = 0; s < nsizes; s++) {
    size_t count = sizes[s] / sizeof(float);
    if (count == 0 || count > 0x7fffffff) {
      if (rank == 0) fprintf(stderr, "all_reduce: a message of %zu bytes: give 4 to 8589934588\n", sizes[s]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    float *in = buffer(sizes[s]), *out = buffer(sizes[s]);
    for (size_t i = 0; i < count; i++) in[i] = element(rank, i);
    double took = run(in, out, count, warmup), times[max_batches];
    if (took * warmup < batch / 4) took = run(in, out, count, warmup * 10);
    int iterations = fixed > 0 ? fixed : took > 0 ? (int)(batch / took) + 1 : 1;
    MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int b = 0; b < batches; b++) times[b] = run(in, out, count, iterations) * 1e6;
    long long wrong = check(in, out, count, ranks);
    qsort(times, batches, sizeof *times, ascending);
    if (rank == 0) {
      double median = batches % 2 ? times[batches / 2] : (times[batches / 2 - 1] + times[batches / 2]) / 2;
      printf("{\"library\":\"openmpi\",\"version\":\"%s\",\"ranks\":%d,\"size_bytes\":%zu,\"iterations\":%d,"
             "\"batches\":%d,\"min_us\":%.3f,\"time_us\":%.3f,\"wrong\":%lld}\n",
             version, ranks, count * sizeof(float), iterations, batches, times[0], median, wrong);
      fflush(stdout);
    }
    bad |= wrong != 0;
    free(in);
    free(out);
  }
  MPI_Finalize();
  return bad ? 3 : 0;
}
