/* What programs of MPI share that test: run.sh runs them. */
#ifndef SF_TESTS_MPI_MPI_TEST_H
#define SF_TESTS_MPI_MPI_TEST_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static bool multiple; /* MPI_THREAD_MULTIPLE */
static int passed;

/* Check's assertions would let the other ranks wait. */
static inline void must_be(int holds, const char *what, const char *why, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: rank %d of %d: failed: %s %s\n", file, line, rank, size, what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
}
#define must(cond) must_be(!!(cond), #cond, "", __FILE__, __LINE__)
#define must_say(cond, why) must_be(!!(cond), #cond, why, __FILE__, __LINE__)

/* MPI leaks some of what it makes when it begins, and unloads the code that did when it ends: then nobody
 * could tell whose it was. */
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

/* @word: "multiple" or "funneled". False: this MPI has it not, which was said. */
static inline bool mpi_test_begin(int *argc, char ***argv, const char *word)
{
	int level, got;

	multiple = !strcmp(word, "multiple");
	level = multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
	if (__lsan_disable)
		__lsan_disable();
	MPI_Init_thread(argc, argv, level, &got);
	if (__lsan_enable)
		__lsan_enable();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (got >= level)
		return true;
	if (!rank)
		printf("SKIP: this MPI has no MPI_THREAD_MULTIPLE\n");
	MPI_Finalize();
	return false;
}

static inline void mpi_test_end(void)
{
	must(!__lsan_do_recoverable_leak_check || !__lsan_do_recoverable_leak_check());
	MPI_Finalize();
	if (!rank)
		printf("%d passed\n", passed);
}

/* V=1 in the environment says where it is. */
static inline void done(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (getenv("V") && !rank)
		fprintf(stderr, "%d ranks: %s\n", size, what);
	passed++;
}

#endif
