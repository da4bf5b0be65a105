/* mpi.c: a correctness program for MPI: messages of many sizes, collectives, non-blocking and one-sided operations. Every byte that arrives is
 * compared. Run it with any number of ranks from 2. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20, MESSAGES = 64, WORDS = 1000, WINDOW = 4096 };

static int rank, ranks;

#define check(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "rank %d: line %d: %s: ", rank, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fprintf(stderr, "\n"); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

static unsigned char pattern(int from, size_t i)
{
	return (unsigned char) (from * 31 + i * 7 + (i >> 8));
}

static void fill(unsigned char *buf, int from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = pattern(from, i);
}

static void verify(const unsigned char *buf, int from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(buf[i] == pattern(from, i), "byte %zu of %zu from rank %d", i, n, from);
}

/* ring sends messages of all sizes around: eager, buffered and rendezvous ones. */
static void ring(void)
{
	unsigned char *out = malloc(LARGEST + 1), *in = malloc(LARGEST + 1);
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

	for (size_t n = 0; n <= LARGEST; n = n ? 4 * n + n % 3 : 1) {
		fill(out, rank, n);
		memset(in, 0, n);
		MPI_Sendrecv(out, (int) n, MPI_BYTE, next, 1, in, (int) n, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		verify(in, previous, n);
	}
	free(out);
	free(in);
}

/* crowd sends many messages from each rank to each rank before anything is received, with tags received in reverse. */
static void crowd(void)
{
	size_t each = 3000;
	unsigned char *out = malloc(each), *in = malloc(each * MESSAGES);
	MPI_Request *requests = malloc(sizeof(*requests) * (size_t) (ranks * MESSAGES));

	fill(out, rank, each);
	for (int to = 0; to < ranks; to++)
		for (int i = 0; i < MESSAGES; i++)
			MPI_Isend(out, (int) each, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[to * MESSAGES + i]);
	for (int from = 0; from < ranks; from++) {
		for (int i = MESSAGES - 1; i >= 0; i--)
			MPI_Recv(in + (size_t) i * each, (int) each, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < MESSAGES; i++)
			verify(in + (size_t) i * each, from, each);
	}
	MPI_Waitall(ranks * MESSAGES, requests, MPI_STATUSES_IGNORE);
	free(requests);
	free(out);
	free(in);
}

static void collectives(void)
{
	long *mine = malloc(sizeof(long) * WORDS), *all = malloc(sizeof(long) * (size_t) (WORDS * ranks)), sum = (long) ranks * (ranks - 1) / 2;
	MPI_Request request;

	for (int i = 0; i < WORDS; i++)
		mine[i] = rank + i;
	MPI_Allreduce(mine, all, WORDS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < WORDS; i++)
		check(all[i] == sum + (long) ranks * i, "allreduce word %d is %ld", i, all[i]);
	MPI_Allgather(mine, WORDS, MPI_LONG, all, WORDS, MPI_LONG, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		for (int i = 0; i < WORDS; i++)
			check(all[r * WORDS + i] == r + i, "allgather word %d of rank %d", i, r);
	memcpy(mine, all + (size_t) ((rank + 1) % ranks) * WORDS, sizeof(long) * WORDS);
	MPI_Bcast(mine, WORDS, MPI_LONG, ranks - 1, MPI_COMM_WORLD);
	check(mine[7] == 7, "broadcast word is %ld", mine[7]);
	for (int r = 0; r < ranks; r++)
		mine[r] = rank * 100 + r;
	MPI_Ialltoall(mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int r = 0; r < ranks; r++)
		check(all[r] == r * 100 + rank, "alltoall word of rank %d is %ld", r, all[r]);
	MPI_Barrier(MPI_COMM_WORLD);
	free(mine);
	free(all);
}

static void one_sided(void)
{
	int *window, *copy = malloc(sizeof(int) * WINDOW), one = 1, total = 0, next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	MPI_Win win;

	MPI_Win_allocate(sizeof(int) * (WINDOW + 1), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	memset(window, 0, sizeof(int) * (WINDOW + 1));
	for (int i = 0; i < WINDOW; i++)
		copy[i] = rank * WINDOW + i;
	MPI_Win_fence(0, win);
	MPI_Put(copy, WINDOW, MPI_INT, next, 0, WINDOW, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < WINDOW; i++)
		check(window[i] == previous * WINDOW + i, "put word %d is %d", i, window[i]);
	MPI_Win_fence(0, win);
	MPI_Get(copy, WINDOW, MPI_INT, next, 0, WINDOW, MPI_INT, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < WINDOW; i++)
		check(copy[i] == rank * WINDOW + i, "get word %d is %d", i, copy[i]);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Accumulate(&one, 1, MPI_INT, 0, WINDOW, 1, MPI_INT, MPI_SUM, win);
	MPI_Win_unlock(0, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Get(&total, 1, MPI_INT, 0, WINDOW, 1, MPI_INT, win);
	MPI_Win_unlock(0, win);
	check(total == ranks, "accumulated %d of %d", total, ranks);
	MPI_Win_free(&win);
	free(copy);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < rounds; i++) {
		ring();
		crowd();
		collectives();
		one_sided();
	}
	MPI_Finalize();
	if (!rank)
		printf("mpi: %d ranks, %d rounds: all bytes are right\n", ranks, rounds);
	return 0;
}
