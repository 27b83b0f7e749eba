#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/source.h"
#include "tests/lib/http_server.h"

/* A bucket whose credentials come of a program that says nothing until the test lets it. */

#define BYTES 10000u
#define READS 20u
#define SAYS                                                              \
	"{\"Version\":1,\"AccessKeyId\":\"K\",\"SecretAccessKey\":\"s\"," \
	"\"Expiration\":\"2199-01-01T00:00:00Z\"}"

struct world {
	char home[64], fifo[128], ran[128];
	struct sf_io io;
	struct sf_http_server server;
	struct sf_http_object object;
	struct sf_store *store;
	struct sf_source *src;
	struct sf_io_req req[READS];
	struct iovec iov[READS];
	uint8_t bytes[BYTES], got[BYTES];
};

static _Atomic unsigned ended;

static void note_end(struct sf_io_req *req, int r)
{
	(void)req;
	(void)r;
	ended++;
}

static void begin(struct world *w)
{
	const struct sf_objinfo want = { .size = BYTES, .version.etag = "\"v1\"" };
	char config[512];
	FILE *f;

	memset(w, 0, sizeof(*w));
	for (size_t i = 0; i < BYTES; i++)
		w->bytes[i] = (uint8_t)(i * 7 + i / 256);
	snprintf(w->home, sizeof(w->home), "/tmp/sf-park-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->home));
	snprintf(w->fifo, sizeof(w->fifo), "%s/fifo", w->home);
	snprintf(w->ran, sizeof(w->ran), "%s/ran", w->home);
	snprintf(config, sizeof(config), "%s/config", w->home);
	ck_assert_int_eq(mkfifo(w->fifo, 0600), 0);
	f = fopen(config, "w");
	fprintf(f, "[default]\ncredential_process = echo >> %s; cat %s\n", w->ran, w->fifo);
	fclose(f);
	w->object = (struct sf_http_object){
		.path = "/b/p/a", .at = w->bytes, .len = BYTES, .etag = "\"v1\""
	};
	w->server.object = &w->object;
	w->server.nobjects = 1;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	setenv("HOME", w->home, 1);
	setenv("AWS_CONFIG_FILE", config, 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_ENDPOINT_URL_S3", w->server.url, 1);
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_PROFILE");
	ck_assert_int_eq(sf_io_init(&w->io, 1, NULL), 0); /* one thread of the pool */
	ck_assert_int_eq(sf_store_open(&w->io, "s3://b/p", NULL, &w->store, NULL), 0);
	ck_assert_int_eq(w->store->ops->open(w->store, "a", &want, &w->src, NULL), 0);
	for (unsigned i = 0; i < READS; i++) {
		const uint64_t len = BYTES / READS;

		w->iov[i] = (struct iovec){ w->got + i * len, len };
		w->req[i] = (struct sf_io_req){ .off = i * len,
			                        .len = len,
			                        .iov = &w->iov[i],
			                        .niov = 1,
			                        .kind = SF_FETCH_TENSOR,
			                        .done = note_end };
	}
}

static void submit_all(struct world *w)
{
	ended = 0;
	for (unsigned i = 0; i < READS; i++)
		ck_assert_int_eq(sf_source_submit(w->src, &w->req[i]), 0);
	while (access(w->ran, F_OK) < 0)
		usleep(1000);
}

static void let_it_say(const struct world *w, const char *text)
{
	int fd = open(w->fifo, O_WRONLY);

	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void until_ended(unsigned n)
{
	while (ended < n)
		usleep(1000);
}

static void finish(struct world *w)
{
	char rm[128];

	sf_source_unref(w->src);
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
	snprintf(rm, sizeof(rm), "rm -rf %s", w->home);
	ck_assert_int_eq(system(rm), 0);
}

static _Atomic bool went_on;

static void note_task(struct sf_task *task)
{
	(void)task;
	went_on = true;
}

/* Reads that have to wait for credentials hold no thread: the pool's only one does other work. */
START_TEST(reads_without_credentials_hold_no_thread)
{
	static struct world w;
	struct sf_task task = { .run = note_task };
	struct stat st;

	begin(&w);
	submit_all(&w);
	sf_thread_pool_submit(w.io.pool, &task);
	while (!went_on)
		usleep(1000);
	ck_assert_uint_eq(ended, 0);
	/* one gives up, and need not wait for them either */
	w.src->ops->cancel(w.src, &w.req[3]);
	w.src->ops->cancel(w.src, &w.req[3]);
	until_ended(1);
	ck_assert_int_eq(w.req[3].r, -ECANCELED);
	ck_assert_uint_eq(w.server.requests, 0);
	let_it_say(&w, SAYS);
	until_ended(READS);
	for (unsigned i = 0; i < READS; i++)
		ck_assert_int_eq(w.req[i].r, i == 3 ? -ECANCELED : 0);
	ck_assert_mem_eq(w.got, w.bytes, 3 * (BYTES / READS));
	ck_assert_mem_eq(w.got + 4 * (BYTES / READS), w.bytes + 4 * (BYTES / READS),
	                 BYTES - 4 * (BYTES / READS));
	ck_assert_uint_eq(w.server.requests, READS - 1);
	ck_assert_int_eq(stat(w.ran, &st), 0);
	ck_assert_int_eq(st.st_size, 1); /* it was run once */
	finish(&w);
}
END_TEST

START_TEST(what_the_program_failed_with_ends_them_all)
{
	static struct world w;
	struct stat st;

	begin(&w);
	submit_all(&w);
	let_it_say(&w, "nonsense");
	until_ended(READS);
	for (unsigned i = 0; i < READS; i++) {
		ck_assert_int_eq(w.req[i].r, -EBADMSG);
		ck_assert_ptr_nonnull(strstr(w.req[i].err.msg, "credential_process"));
	}
	ck_assert_int_eq(stat(w.ran, &st), 0);
	ck_assert_int_eq(st.st_size, 1);
	finish(&w);
}
END_TEST

/* A store is closed while a program that nobody waits for any more goes on for ever. */
START_TEST(the_end_does_not_wait_for_a_program)
{
	static struct world w;

	begin(&w);
	submit_all(&w);
	for (unsigned i = 0; i < READS; i++)
		w.src->ops->cancel(w.src, &w.req[i]);
	until_ended(READS);
	finish(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3_park");
	TCase *t = tcase_create("park");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, reads_without_credentials_hold_no_thread);
	tcase_add_test(t, what_the_program_failed_with_ends_them_all);
	tcase_add_test(t, the_end_does_not_wait_for_a_program);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
