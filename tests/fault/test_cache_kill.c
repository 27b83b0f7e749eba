/* Processes that share a cache, and die in the middle of it: whoever comes next reads every byte
 * right. */
#include "config.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/lib/cache_world.h"

#define ROUNDS 40

static struct cache_world w;

/* Reads at random until it is killed, or for @times. Its bytes are checked, too. */
static void reads(uint64_t seed, unsigned times)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	for (unsigned i = 0; i < times; i++) {
		uint64_t off = sf_test_below(&seed, CW_BYTES - 1);
		uint64_t len = 1 + sf_test_below(&seed, SF_MIN(CW_BYTES - off, 3 * SF_CACHE_BLOCK));
		if (cw_read_err(&w, src, off, SF_MIN(len, CW_BYTES - off), NULL) != 0)
			_exit(3);
	}
	sf_source_unref(src);
	cw_end(&w);
}

static pid_t begin_child(uint64_t seed, unsigned times)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		reads(seed, times);
		_exit(0);
	}
	return pid;
}

/* Has any file of the cache bytes? */
static bool kept_something(void)
{
	DIR *d = opendir(w.dir);
	bool has = false;
	struct stat st;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		has |= strstr(e->d_name, ".data") && fstatat(dirfd(d), e->d_name, &st, 0) == 0 &&
		       st.st_blocks;
	closedir(d);
	return has;
}

static void wait_ok(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
	                      (WIFEXITED(status) && WEXITSTATUS(status) == 0),
	              "status %x", status);
}

START_TEST(killed_at_any_point_the_cache_is_right)
{
	uint64_t seed = sf_test_seed("kill");
	unsigned hit = 0;

	cw_dir(&w);
	cw_bytes(&w);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = begin_child(sf_test_rand(&seed), UINT32_MAX);
		struct timespec t = { 0, (long)sf_test_below(&seed, 15000000) };
		while (i % 4 == 2 && !kept_something()) /* blocks are written behind who reads */
			usleep(1000);
		nanosleep(&t, NULL);
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		wait_ok(pid);
		cw_begin(&w, NULL);
		struct sf_source *src = cw_open(&w);
		if (i % 4 == 3) { /* all of it, by what the killed ones left */
			cw_read(&w, src, 0, CW_BYTES);
			hit += w.io.counters.cache_fetched_bytes < CW_BYTES;
		}
		sf_source_unref(src);
		cw_end(&w);
		if (i % 4 == 3) {
			ck_assert_int_eq(unlink(cw_file(&w, ".data")), 0);
			if (i % 8 == 3)
				ck_assert_int_eq(unlink(cw_file(&w, ".map")), 0);
		}
	}
	ck_assert_uint_gt(hit, 0); /* they did leave something */
	cw_remove(&w);
}
END_TEST

START_TEST(processes_at_once_read_right)
{
	uint64_t seed = sf_test_seed("at once");
	pid_t pid[4];

	cw_dir(&w);
	cw_bytes(&w);
	for (unsigned i = 0; i < SF_ARRAY_LEN(pid); i++)
		pid[i] = begin_child(sf_test_rand(&seed), 60);
	/* and one that takes their files away meanwhile */
	for (int i = 0; i < 10; i++) {
		struct timespec t = { 0, 3000000 };
		char cmd[200];
		nanosleep(&t, NULL);
		snprintf(cmd, sizeof(cmd), "rm -f '%s'/*.%s", w.dir, i & 1 ? "map" : "data");
		ck_assert_int_eq(system(cmd), 0);
	}
	for (unsigned i = 0; i < SF_ARRAY_LEN(pid); i++)
		wait_ok(pid[i]);
	reads(sf_test_rand(&seed), 60);
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_kill");
	TCase *t = tcase_create("cache_kill");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, killed_at_any_point_the_cache_is_right);
	tcase_add_test(t, processes_at_once_read_right);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
