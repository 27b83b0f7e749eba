#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/budget.h"
#include "base/mem.h"
#include "lib/session.h"
#include "store/open_files.h"
#include "tests/lib/sf_fake_ckpt.h"

/* One process, many checkpoints: what they share is bounded as if there was one. */

static unsigned entries_of(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* . and .. and the directory itself; of threads one too few */
}

#define OPEN 8

struct half {
	struct fake f;
	char dir[256];
	struct sf_store *store;
	struct sf_reader *r;
	unsigned before;
	_Atomic unsigned most;
	_Atomic uint64_t seed;
};

#define THREADS 4 /* of each */

static void *read_all(void *arg)
{
	struct half *h = arg;
	struct sf_error err = SF_ERROR_INIT;
	uint8_t *got = malloc(1 << 20);
	uint64_t seed = h->seed++;

	for (int i = 0; i < 400; i++) {
		uint32_t n = (uint32_t)sf_test_below(&seed, h->f.ntensors);
		const struct fake_tensor *t = &h->f.t[n];
		ck_assert_uint_le(t->bytes, 1 << 20);
		int r = sf_read_tensor(h->r, n, 0, got, t->bytes, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_mem_eq(got, t->dense, t->bytes);
		unsigned now = entries_of("/proc/self/fd") - h->before, most = h->most;
		while (now > most && !atomic_compare_exchange_weak(&h->most, &most, now))
			;
	}
	free(got);
	return NULL;
}

/* Each has more files than may be open. */
START_TEST(two_readers_share_what_may_be_open)
{
	uint64_t seed = sf_test_seed("two_readers");
	pthread_t id[2 * THREADS];
	struct half h[2];
	struct sf_io io;

	memset(h, 0, sizeof(h));
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_io_set_open(&io, OPEN, NULL), 0);
	for (int i = 0; i < 2; i++) {
		h[i].seed = seed + 100 * (uint64_t)i;
		fake_random(&h[i].f, h[i].seed);
		fake_objects(&h[i].f);
		fake_write(&h[i].f, h[i].dir);
		ck_assert_int_eq(sf_store_open(&io, h[i].dir, NULL, &h[i].store, NULL), 0);
		fake_finish(&h[i].f, h[i].store);
		ck_assert_int_eq(sf_reader_new(h[i].f.ckpt, h[i].store, &h[i].r, NULL), 0);
	}
	h[0].before = h[1].before = entries_of("/proc/self/fd");
	for (int i = 0; i < 2 * THREADS; i++)
		ck_assert_int_eq(pthread_create(&id[i], NULL, read_all, &h[i % 2]), 0);
	for (int i = 0; i < 2 * THREADS; i++)
		pthread_join(id[i], NULL);
	/* those that are kept, half as many that reads hold, and a listing of /proc each */
	for (int i = 0; i < 2; i++)
		ck_assert_uint_le(h[i].most, OPEN + OPEN / 2 + 2 * THREADS);
	ck_assert_uint_eq(entries_of("/proc/self/fd") - h[0].before, OPEN);
	sf_reader_free(h[0].r);
	ck_assert_uint_le(entries_of("/proc/self/fd") - h[0].before, OPEN);
	sf_reader_free(h[1].r);
	ck_assert_uint_eq(entries_of("/proc/self/fd"), h[0].before);
	for (int i = 0; i < 2; i++) {
		sf_store_free(h[i].store);
		fake_remove(&h[i].f, h[i].dir);
		fake_release(&h[i].f);
	}
	sf_io_release(&io);
}
END_TEST

#define SESSIONS 200

START_TEST(two_hundred_checkpoints_are_loaded_and_given_back)
{
	static const char *const which[] = { "dcp/fsdp4/ckpt", "dcp/columns/ckpt",
		                             "dcp/mesh2x2/ckpt", "dcp/zstd/ckpt" };
	struct sf_session *s = calloc(SESSIONS, sizeof(*s));
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_budget_stat stat;
	unsigned threads, fds;
	char path[4096];
	uint8_t byte;
	struct sf_io io;

	sf_session_options_init(&opt);
	opt.memory = 64 << 20;
	opt.threads = 4;
	ck_assert_int_eq(sf_session_io(&io, &opt, NULL), 0);
	ck_assert_int_eq(sf_io_set_open(&io, OPEN, NULL), 0);
	opt.io = &io;
	fds = entries_of("/proc/self/fd");
	threads = entries_of("/proc/self/task");
	for (int i = 0; i < SESSIONS; i++) {
		int r = sf_session_open(&s[i], &opt,
		                        sf_test_data(path, which[i % SF_ARRAY_LEN(which)]), &err);
		if (r == -ENOTSUP && strstr(which[i % SF_ARRAY_LEN(which)], "zstd"))
			continue; /* a build without it */
		ck_assert_msg(r == 0, "%s", err.msg);
		for (uint32_t t = 0; t < s[i].ckpt->ntensors; t++) {
			if (!s[i].ckpt->tensor[t].bytes)
				continue;
			r = sf_read_tensor(s[i].reader, t, 0, &byte, 1, &err);
			ck_assert_msg(r == 0 || r == -ENOTSUP, "%s", err.msg);
		}
	}
	/* the one of deadlines begins with the first read that waits */
	ck_assert_uint_le(entries_of("/proc/self/task"), threads + 1);
	/* each holds its directory; files are shared */
	ck_assert_uint_le(entries_of("/proc/self/fd"), fds + SESSIONS + OPEN);
	sf_budget_stat(io.budget, &stat);
	ck_assert_uint_le(stat.held, opt.memory);
	for (int i = 0; i < SESSIONS; i++)
		sf_session_close(&s[i]);
	sf_budget_stat(io.budget, &stat);
	ck_assert_uint_eq(stat.held, 0);
	ck_assert_uint_eq(entries_of("/proc/self/fd"), fds);
	sf_io_release(&io);
	free(s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sessions");
	TCase *tc = tcase_create("sessions");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, two_readers_share_what_may_be_open);
	tcase_add_test(tc, two_hundred_checkpoints_are_loaded_and_given_back);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
