#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "sf_test.h"
#include "store/source.h"
#include "tests/lib/fault_campaign.h"
#include "tests/lib/http_server.h"

#define BYTES 200000u
#define READERS 4

/*
 * Whatever a server does, a read gives the bytes or an error with a message, and in the end nothing
 * is left over. SF_FAULTS=N: so many broken answers instead of a few hundred.
 */
struct world {
	struct sf_http_server server;
	struct sf_http_object object;
	struct sf_io io;
	uint64_t seed; /* under the server's lock */
	_Atomic uint64_t broken, right, failed;
	_Atomic int64_t longest_ms;
	char tls[96]; /* a redirect to a server that speaks no TLS */
	uint64_t wanted;
	uint8_t bytes[BYTES];
};

struct reader {
	struct world *w;
	pthread_t thread;
	uint64_t seed;
	uint8_t got[BYTES];
};

static struct sf_http_fault break_some(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;
	const struct {
		enum sf_http_fault_kind kind;
		unsigned n, often;
		const char *text;
	} faults[] = {
		{ SF_HTTP_STATUS, 503, 20, "Retry-After: 0\r\n" },
		{ SF_HTTP_STATUS, 500, 20, NULL },
		{ SF_HTTP_STATUS, 429, 10, NULL },
		{ SF_HTTP_STATUS, 403, 5, NULL },
		{ SF_HTTP_STATUS, 404, 2, NULL },
		{ SF_HTTP_STATUS, 302, 5, "Location: /d/a\r\n" },
		{ SF_HTTP_STATUS, 302, 2, "Location: http://127.0.0.1:1/\r\n" },
		{ SF_HTTP_CLOSE, 0, 20, NULL },
		{ SF_HTTP_RESET, 0, 20, NULL },
		{ SF_HTTP_CUT, 0, 10, NULL },
		{ SF_HTTP_CUT, 5000, 20, NULL },
		{ SF_HTTP_LONG, 100, 10, NULL },
		{ SF_HTTP_LONG_HIDDEN, 100, 10, NULL },
		{ SF_HTTP_WRONG_RANGE, 1, 10, NULL },
		{ SF_HTTP_NO_RANGE, 0, 10, NULL },
		{ SF_HTTP_WHOLE, 0, 10, NULL },
		{ SF_HTTP_DELAY, 20, 10, NULL },
		{ SF_HTTP_ENCODED, 0, 5, NULL },
		{ SF_HTTP_OTHER_TAG, 0, 3, NULL },
		{ SF_HTTP_PAGE, 0, 5, NULL },
		{ SF_HTTP_HUGE, 0, 5, NULL },
		{ SF_HTTP_GARBAGE, 0, 5, NULL },
		{ SF_HTTP_HEADERS, 0, 2, NULL },
		{ SF_HTTP_SILENT, 0, 1, NULL },
		{ SF_HTTP_STALL, 100, 1, NULL },
		{ SF_HTTP_DRIP, 3, 1, NULL },
		{ SF_HTTP_SLOW_HEAD, 300, 1, NULL },
		{ SF_HTTP_STATUS, 302, 1, "Location: http://no-such-host.invalid/\r\n" },
		{ SF_HTTP_STATUS, 302, 1, w->tls },
	};
	unsigned all = 0, at;

	if (sf_test_below(&w->seed, 3) != 0 || w->broken >= w->wanted)
		return (struct sf_http_fault){ 0 };
	w->broken++;
	for (size_t i = 0; i < SF_ARRAY_LEN(faults); i++)
		all += faults[i].often;
	at = (unsigned)sf_test_below(&w->seed, all);
	for (size_t i = 0;; at -= faults[i++].often)
		if (at < faults[i].often)
			return (struct sf_http_fault){ .kind = faults[i].kind,
				                       .n = faults[i].n,
				                       .text = faults[i].text };
}

static void *read_on(void *arg)
{
	struct reader *rd = arg;
	struct world *w = rd->w;
	struct sf_store *store = NULL;
	struct sf_source *src = NULL;
	char url[128];

	snprintf(url, sizeof(url), "%s/d", w->server.url);
	while (w->broken < w->wanted) {
		struct sf_error err = SF_ERROR_INIT;
		uint64_t off = sf_test_below(&rd->seed, BYTES),
			 len = 1 + sf_test_below(&rd->seed, sf_test_below(&rd->seed, 4)
		                                                    ? SF_MIN(BYTES - off, 9000)
		                                                    : BYTES - off);
		int64_t start = sf_now_ms();
		int r = 0;

		/* what has changed once stays so: begin again */
		if (!store)
			ck_assert_int_eq(sf_store_open(&w->io, url, NULL, &store, NULL), 0);
		if (!src)
			r = store->ops->open(store, "a", NULL, &src, &err);
		if (r == 0)
			r = sf_source_read(src, off, rd->got, len, SF_FETCH_TENSOR, &err);
		if (r == 0) {
			ck_assert_mem_eq(rd->got, w->bytes + off, len);
			w->right++;
		} else {
			ck_assert_msg(err.msg[0] != '\0', "%d", r);
			w->failed++;
		}
		campaign_longest(&w->longest_ms, start);
		if (r == -ESTALE) {
			sf_source_unref(src);
			sf_store_free(store);
			src = NULL;
			store = NULL;
		}
	}
	sf_source_unref(src);
	sf_store_free(store);
	return NULL;
}

static void campaign(struct world *w, uint64_t seed, uint64_t wanted)
{
	static struct reader reader[READERS];

	w->wanted = wanted;
	w->seed = sf_test_rand(&seed);
	w->object = (struct sf_http_object){ "/d/a", w->bytes, BYTES, "\"v1\"", NULL };
	w->server.object = &w->object;
	w->server.nobjects = 1;
	w->server.fault = break_some;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	snprintf(w->tls, sizeof(w->tls), "Location: https%s/\r\n", w->server.url + 4);
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	w->io.timeout_ms = CAMPAIGN_TIMEOUT_MS;
	for (int i = 0; i < READERS; i++) {
		reader[i].w = w;
		reader[i].seed = sf_test_rand(&seed);
		ck_assert_int_eq(sf_thread_start(&reader[i].thread, read_on, &reader[i]), 0);
	}
	for (int i = 0; i < READERS; i++)
		pthread_join(reader[i].thread, NULL);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
}

START_TEST(bytes_are_right_or_there_is_an_error)
{
	static struct world first, w;
	uint64_t seed = sf_test_seed("remote_faults"), bytes = seed;
	struct campaign_held before;

	for (size_t i = 0; i < BYTES; i++)
		w.bytes[i] = (uint8_t)sf_test_rand(&bytes);
	memcpy(first.bytes, w.bytes, sizeof(w.bytes));
	/* what libraries make once is made by a first world; then nothing may be left over */
	campaign(&first, seed + 1, 30);
	before = campaign_held();
	campaign(&w, seed, campaign_faults(300));
	printf("%llu faults in %llu requests: %llu reads right, %llu failed; the longest read %lld "
	       "ms of "
	       "%d\n",
	       (unsigned long long)w.broken, (unsigned long long)w.server.requests,
	       (unsigned long long)w.right, (unsigned long long)w.failed, (long long)w.longest_ms,
	       CAMPAIGN_TIMEOUT_MS);
	ck_assert_uint_gt(w.right, w.failed);
	/* to open it and to read it has a deadline each */
	ck_assert_int_lt(w.longest_ms, 2 * CAMPAIGN_TIMEOUT_MS + CAMPAIGN_LATE_MS);
	campaign_check(&before, w.broken);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("remote_faults");
	TCase *c = tcase_create("remote_faults");

	tcase_set_timeout(c, getenv("SF_FAULTS") ? 3600 : 60);
	tcase_add_test(c, bytes_are_right_or_there_is_an_error);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
