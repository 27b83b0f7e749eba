#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "sf_test.h"
#include "store/source.h"
#include "tests/lib/fault_campaign.h"
#include "tests/lib/http_server.h"
#include "tests/lib/sigv4_check.h"

#define BYTES 150000u
#define SHIFT 7919u /* a version begins so much further on */
#define READERS 6
#define KEYS 1000 /* of the directory that is listed */
#define PAGE 150
#define SECRET "secret/of+"

/*
 * A bucket whose server checks each signature and does all that can go wrong: its object is written
 * anew, or gone for a while; keys are rotated, the clock and the region change; answers are broken.
 * A read gives the bytes of the version that was opened or an error; a listing all keys or an error.
 */
struct world {
	struct sf_http_server server;
	struct sf_io io;
	struct sf_store *store;
	uint64_t wanted;
	_Atomic uint64_t broken, right, failed, stale, lists, failed_lists, cancelled,
		bad_signatures;
	_Atomic int64_t longest_ms;
	struct {
		pthread_mutex_t m;
		uint64_t seed;
		unsigned version, keys, region;
		int gone; /* requests that find no object */
		int64_t skew_s, rotated_ms;
	} locked;
	uint8_t bytes[2 * BYTES];
};

static const char *const region_names[] = { "us-east-1", "eu-far-2" };

static const uint8_t *bytes_of(const struct world *w, unsigned version)
{
	return w->bytes + (size_t)version * SHIFT % BYTES;
}

#define ERROR(code, more) \
	"<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>m</Message>" more "</Error>"

static struct sf_http_fault refusal(unsigned status, const char *headers, const char *body)
{
	return (struct sf_http_fault){ SF_HTTP_STATUS, status, headers, body };
}

/* What a good server would say of the request's signature; FINE: nothing. */
static struct sf_http_fault judge(struct world *w, const struct sf_http_seen *seen)
{
	static const char *const moved[] = {
		ERROR("AuthorizationHeaderMalformed", "<Region>us-east-1</Region>"),
		ERROR("AuthorizationHeaderMalformed", "<Region>eu-far-2</Region>")
	};
	static const char *const bucket_region[] = { "x-amz-bucket-region: us-east-1\r\n",
		                                     "x-amz-bucket-region: eu-far-2\r\n" };
	static _Thread_local char skewed[512], date[64];
	struct sf_sigv4_said said;
	unsigned keys = 0;
	int64_t now = time(NULL) + w->locked.skew_s;
	char token[32];
	struct tm tm;

	if (!sf_sigv4_check(seen->method, seen->path, seen->head, SECRET, &said) ||
	    sscanf(said.key_id, "KEY%u", &keys) != 1) {
		if (!w->bad_signatures++)
			printf("%s\n%s", said.why, seen->head);
		return refusal(403, NULL, ERROR("SignatureDoesNotMatch", ""));
	}
	if (now - said.time > 900 || said.time - now > 900) {
		time_t t = (time_t)now;
		char iso[32];
		gmtime_r(&t, &tm);
		strftime(iso, sizeof(iso), "%Y-%m-%dT%H:%M:%SZ", &tm);
		strftime(date, sizeof(date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
		snprintf(skewed, sizeof(skewed),
		         ERROR("RequestTimeTooSkewed", "<ServerTime>%s</ServerTime>"), iso);
		return refusal(403, date, skewed);
	}
	if (strcmp(said.region, region_names[w->locked.region]) != 0)
		return refusal(seen->n % 2 ? 400 : 301, bucket_region[w->locked.region],
		               moved[w->locked.region]);
	snprintf(token, sizeof(token), "TOKEN%u", keys);
	if (strcmp(said.token, token) != 0)
		return refusal(403, NULL, ERROR("InvalidToken", ""));
	if (keys != w->locked.keys)
		return refusal(seen->n % 2 ? 400 : 403, NULL, ERROR("ExpiredToken", ""));
	if (w->locked.gone > 0 && w->locked.gone-- && !strchr(seen->path, '?'))
		return refusal(404, NULL, ERROR("NoSuchKey", ""));
	return (struct sf_http_fault){ 0 };
}

/* The world changes. */
static void turn(struct world *w)
{
	static const int64_t skews[] = { 0, 1200, -1200, 7200 };

	switch (sf_test_below(&w->locked.seed, 6)) {
	case 0:
	case 1:
		w->locked.version++;
		break;
	case 2:
		w->locked.version++;
		w->locked.gone = 12;
		break;
	case 3:
		w->locked.region ^= 1;
		break;
	case 4:
		w->locked.skew_s = skews[sf_test_below(&w->locked.seed, SF_ARRAY_LEN(skews))];
		break;
	default: /* as seldom as any server does: new ones are asked for every few seconds */
		if (sf_now_ms() - w->locked.rotated_ms < 6000)
			return;
		w->locked.rotated_ms = sf_now_ms();
		w->locked.keys++;
	}
	w->broken++;
}

static struct sf_http_fault some_fault(struct world *w, const struct sf_http_seen *seen)
{
	static const struct {
		struct sf_http_fault f;
		unsigned often;
	} faults[] = {
		{ { SF_HTTP_STATUS, 503, "Retry-After: 0\r\n", ERROR("SlowDown", "") }, 20 },
		{ { SF_HTTP_STATUS, 500, NULL, ERROR("InternalError", "") }, 20 },
		{ { SF_HTTP_STATUS, 429, NULL, NULL }, 5 },
		{ { SF_HTTP_STATUS, 403, NULL, ERROR("AccessDenied", "") }, 3 },
		{ { SF_HTTP_STATUS, 200, NULL, ERROR("InternalError", "") }, 5 },
		{ { SF_HTTP_STATUS, 307, "Location: http://127.0.0.1:1/\r\n", NULL }, 2 },
		{ { SF_HTTP_CLOSE, 0, NULL, NULL }, 20 },
		{ { SF_HTTP_RESET, 0, NULL, NULL }, 20 },
		{ { SF_HTTP_CUT, 0, NULL, NULL }, 10 },
		{ { SF_HTTP_CUT, 5000, NULL, NULL }, 20 },
		{ { SF_HTTP_LONG, 100, NULL, NULL }, 5 },
		{ { SF_HTTP_LONG_HIDDEN, 100, NULL, NULL }, 5 },
		{ { SF_HTTP_WRONG_RANGE, 1, NULL, NULL }, 5 },
		{ { SF_HTTP_NO_RANGE, 0, NULL, NULL }, 5 },
		{ { SF_HTTP_WHOLE, 0, NULL, NULL }, 5 },
		{ { SF_HTTP_DELAY, 20, NULL, NULL }, 10 },
		{ { SF_HTTP_ENCODED, 0, NULL, NULL }, 3 },
		{ { SF_HTTP_OTHER_TAG, 0, NULL, NULL }, 3 },
		{ { SF_HTTP_PAGE, 0, NULL, NULL }, 3 },
		{ { SF_HTTP_HUGE, 0, NULL, NULL }, 3 },
		{ { SF_HTTP_GARBAGE, 0, NULL, NULL }, 3 },
		{ { SF_HTTP_HEADERS, 0, NULL, NULL }, 2 },
		{ { SF_HTTP_SILENT, 0, NULL, NULL }, 1 },
		{ { SF_HTTP_STALL, 100, NULL, NULL }, 1 },
		{ { SF_HTTP_DRIP, 3, NULL, NULL }, 1 },
		{ { SF_HTTP_SLOW_HEAD, 300, NULL, NULL }, 1 },
	};
	unsigned all = 0, at;
	size_t i = 0;

	for (size_t k = 0; k < SF_ARRAY_LEN(faults); k++)
		all += faults[k].often;
	for (at = (unsigned)sf_test_below(&w->locked.seed, all); at >= faults[i].often; i++)
		at -= faults[i].often;
	/* what a HEAD says is believed: nobody could tell */
	if (faults[i].f.kind == SF_HTTP_OTHER_TAG && strcmp(seen->method, "GET") != 0)
		return (struct sf_http_fault){ 0 };
	w->broken++;
	return faults[i].f;
}

static struct sf_http_fault decide(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;
	struct sf_http_fault f = { 0 };

	pthread_mutex_lock(&w->locked.m);
	if (strcmp(seen->path, "/creds") != 0)
		f = judge(w, seen);
	if (f.kind == SF_HTTP_FINE && w->broken < w->wanted) {
		size_t what = sf_test_below(&w->locked.seed, 30);
		if (what == 0)
			turn(w);
		else if (what < 10 && strcmp(seen->path, "/creds") != 0)
			f = some_fault(w, seen);
	}
	pthread_mutex_unlock(&w->locked.m);
	return f;
}

/* A page of the listing; one of twenty is no good. (One that is left out altogether, nobody could tell.) */
static char *make_page(struct world *w, const char *query, uint64_t *ret_len)
{
	unsigned from = 0, to, bad;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	const char *token = strstr(query, "continuation-token=t");

	if (token)
		from = (unsigned)strtoul(token + 20, NULL, 10);
	pthread_mutex_lock(&w->locked.m);
	bad = w->broken < w->wanted ? (unsigned)sf_test_below(&w->locked.seed, 100) : 100;
	pthread_mutex_unlock(&w->locked.m);
	w->broken += bad < 5;
	if (bad == 0 && from >= PAGE) /* once more what was there */
		from -= PAGE;
	to = SF_MIN(from + PAGE, KEYS);
	fprintf(f,
	        "<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name><KeyCount>%u</KeyCount>"
	        "<IsTruncated>%s</IsTruncated>",
	        to - from, to < KEYS || bad == 2 ? "true" : "false");
	for (unsigned i = from; i < to; i++)
		fprintf(f,
		        "<Contents><Key>%srun/l/%05u</Key><Size>%u</Size><ETag>\"e\"</ETag></"
		        "Contents>",
		        bad == 3 && i == from ? "other/" : "", i, i);
	if (to < KEYS && bad != 2)
		fprintf(f, "<NextContinuationToken>t%u</NextContinuationToken>", to);
	fprintf(f, "</ListBucketResult>");
	fclose(f);
	*ret_len = bad == 4 ? size / 2 : size;
	if (bad == 1) /* an error where a page should be */
		*ret_len = (uint64_t)sprintf(text, ERROR("InternalError", ""));
	return text;
}

static bool make(void *arg, const struct sf_http_seen *seen, struct sf_http_object *ret,
                 void **ret_own)
{
	struct world *w = arg;
	char *text = NULL;
	unsigned version, keys;

	pthread_mutex_lock(&w->locked.m);
	version = w->locked.version;
	keys = w->locked.keys;
	pthread_mutex_unlock(&w->locked.m);
	*ret = (struct sf_http_object){ .path = seen->path };
	if (strcmp(seen->path, "/creds") == 0) {
		if (asprintf(&text,
		             "{\"AccessKeyId\":\"KEY%u\",\"SecretAccessKey\":\"" SECRET
		             "KEY%u\",\"Token\":\"TOKEN%u\",\"Expiration\":\"2099-01-01T00:00:"
		             "00Z\"}",
		             keys, keys, keys) < 0)
			return false;
		ret->at = text;
		ret->len = strlen(text);
	} else if (strncmp(seen->path, "/b?", 3) == 0 || strncmp(seen->path, "/b/?", 4) == 0) {
		ret->at = text = make_page(w, strchr(seen->path, '?'), &ret->len);
	} else if (strcmp(seen->path, "/b/run/a") == 0) {
		if (asprintf(&text, "\"v%u\"", version) < 0)
			return false;
		ret->at = bytes_of(w, version);
		ret->len = BYTES;
		ret->etag = text;
	} else {
		return false;
	}
	*ret_own = text;
	return true;
}

/* ---- readers ---- */

struct reader {
	struct world *w;
	pthread_t thread;
	uint64_t seed;
	struct sf_source *src;
	uint8_t got[BYTES];
	_Atomic bool ended;
};

static int count_key(void *arg, const struct sf_objinfo *info)
{
	uint64_t *n = arg;
	char want[32];

	snprintf(want, sizeof(want), "l/%05" PRIu64, *n);
	ck_assert_str_eq(info->name, want);
	ck_assert_uint_eq(info->size, *n);
	++*n;
	return 0;
}

static void list(struct reader *rd)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t n = 0;
	int r = rd->w->store->ops->list(rd->w->store, "l", 1, count_key, &n, &err);

	if (r == 0) {
		ck_assert_uint_eq(n, KEYS); /* never fewer, never none */
		rd->w->lists++;
	} else {
		ck_assert_msg(err.msg[0] != '\0', "%d", r);
		rd->w->failed_lists++;
	}
}

/* Nobody is there, or nobody who speaks TLS: an error, soon. */
static void nobody(struct reader *rd)
{
	static const char *const where[] = { "http://127.0.0.1:1", "http://no-such-host.invalid",
		                             NULL };
	struct sf_store_options opt = { .region = "us-east-1",
		                        .addressing = "path",
		                        .cache_size_given = true }; /* none */
	const char *at = where[sf_test_below(&rd->seed, SF_ARRAY_LEN(where))];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	struct sf_source *src = NULL;
	char tls[80];
	int r;

	snprintf(tls, sizeof(tls), "https%s", rd->w->server.url + 4);
	opt.endpoint_url = at ? at : tls;
	ck_assert_int_eq(sf_store_open(&rd->w->io, "s3://b/run", &opt, &store, NULL), 0);
	r = store->ops->open(store, "a", NULL, &src, &err);
	ck_assert_int_lt(r, 0);
	ck_assert(err.msg[0] != '\0');
	sf_store_free(store);
	rd->w->broken++;
}

static void note_end(struct sf_io_req *req, int r)
{
	struct reader *rd = req->priv[1];

	(void)r;
	rd->ended = true;
}

/* ^C: it ends, with the bytes or without. */
static int read_and_cancel(struct reader *rd, uint64_t off, uint64_t len)
{
	struct iovec iov = { rd->got, len };
	struct sf_io_req req = { .off = off,
		                 .len = len,
		                 .iov = &iov,
		                 .niov = 1,
		                 .kind = SF_FETCH_TENSOR,
		                 .done = note_end,
		                 .priv = { NULL, rd },
		                 .wakes = true };

	rd->ended = false;
	if (!sf_source_submit(rd->src, &req)) {
		usleep((useconds_t)sf_test_below(&rd->seed, 3000));
		rd->src->ops->cancel(rd->src, &req);
		while (!rd->ended)
			usleep(500);
	}
	rd->w->cancelled += req.r == -ECANCELED;
	return req.r;
}

static void read_one(struct reader *rd)
{
	struct world *w = rd->w;
	struct sf_error err = SF_ERROR_INIT;
	uint64_t off = sf_test_below(&rd->seed, BYTES), most = BYTES - off, len;
	bool cancel = sf_test_below(&rd->seed, 20) == 0;
	unsigned version;
	int r = 0;

	len = 1 +
	      sf_test_below(&rd->seed, sf_test_below(&rd->seed, 4) ? SF_MIN(most, 9000ul) : most);
	if (!rd->src)
		r = w->store->ops->open(w->store, "a", NULL, &rd->src, &err);
	if (r == 0 && rd->src->size != BYTES) { /* a HEAD was believed that was none */
		sf_source_unref(rd->src);
		rd->src = NULL;
		return;
	}
	if (r == 0)
		r = cancel ? read_and_cancel(rd, off, len)
		           : sf_source_read(rd->src, off, rd->got, len, SF_FETCH_TENSOR, &err);
	if (r == 0) {
		ck_assert_ptr_nonnull(rd->src->version.etag);
		ck_assert_int_eq(sscanf(rd->src->version.etag, "\"v%u\"", &version), 1);
		ck_assert_mem_eq(rd->got, bytes_of(w, version) + off, len);
		w->right++;
		return;
	}
	ck_assert_msg(cancel || err.msg[0] != '\0', "%d", r);
	w->failed += r != -ESTALE;
	w->stale += r == -ESTALE;
	if (r == -ESTALE) {
		sf_source_unref(rd->src);
		rd->src = NULL;
	}
}

static void *read_on(void *arg)
{
	struct reader *rd = arg;

	while (rd->w->broken < rd->w->wanted) {
		int64_t start = sf_now_ms();
		size_t what = sf_test_below(&rd->seed, 100);

		if (what < 1)
			nobody(rd);
		else if (what < 6)
			list(rd);
		else
			read_one(rd);
		if (what >= 6)
			campaign_longest(&rd->w->longest_ms, start);
	}
	sf_source_unref(rd->src);
	rd->src = NULL;
	return NULL;
}

static void campaign(struct world *w, uint64_t seed, uint64_t wanted)
{
	static struct reader reader[READERS];
	char url[128];

	w->wanted = wanted;
	w->locked.seed = sf_test_rand(&seed);
	w->server.fault = decide;
	w->server.make = make;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	setenv("AWS_ENDPOINT_URL_S3", w->server.url, 1);
	snprintf(url, sizeof(url), "%s/creds", w->server.url);
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	w->io.timeout_ms = CAMPAIGN_TIMEOUT_MS;
	ck_assert_int_eq(sf_store_open(&w->io, "s3://b/run", NULL, &w->store, NULL), 0);
	for (int i = 0; i < READERS; i++) {
		reader[i].w = w;
		reader[i].seed = sf_test_rand(&seed);
		ck_assert_int_eq(sf_thread_start(&reader[i].thread, read_on, &reader[i]), 0);
	}
	for (int i = 0; i < READERS; i++)
		pthread_join(reader[i].thread, NULL);
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
}

START_TEST(a_bucket_gives_one_version_or_an_error)
{
	static struct world first, w;
	uint64_t seed = sf_test_seed("s3_faults"), bytes = seed;
	struct campaign_held before;

	for (const char *const *v =
	             (const char *const[]){ "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
	                                    "AWS_SESSION_TOKEN", "AWS_PROFILE", NULL };
	     *v; v++)
		unsetenv(*v);
	setenv("AWS_REGION", "us-east-1", 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	pthread_mutex_init(&first.locked.m, NULL);
	pthread_mutex_init(&w.locked.m, NULL);
	for (size_t i = 0; i < BYTES; i++)
		w.bytes[i] = w.bytes[i + BYTES] = (uint8_t)sf_test_rand(&bytes);
	memcpy(first.bytes, w.bytes, sizeof(w.bytes));
	/* what libraries make once is made by a first world; then nothing may be left over */
	campaign(&first, seed + 1, 30);
	before = campaign_held();
	campaign(&w, seed, campaign_faults(300));
	printf("%" PRIu64 " faults in %" PRIu64 " requests: %" PRIu64 " reads right, %" PRIu64
	       " failed, %" PRIu64 " of a version that is gone, %" PRIu64 " cancelled; %" PRIu64
	       " listings right, %" PRIu64
	       " failed; %u versions, %u keys; the longest read %" PRId64 " ms of %d\n",
	       w.broken, w.server.requests, w.right, w.failed, w.stale, w.cancelled, w.lists,
	       w.failed_lists, w.locked.version, w.locked.keys, w.longest_ms, CAMPAIGN_TIMEOUT_MS);
	ck_assert_uint_eq(w.bad_signatures, 0);
	ck_assert_uint_gt(w.right, w.failed);
	ck_assert_uint_gt(w.lists, 0);
	ck_assert_int_lt(w.longest_ms, 2 * CAMPAIGN_TIMEOUT_MS + CAMPAIGN_LATE_MS);
	campaign_check(&before, w.broken);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3_faults");
	TCase *c = tcase_create("s3_faults");

	tcase_set_timeout(c, getenv("SF_FAULTS") ? 3600 : 120);
	tcase_add_test(c, a_bucket_gives_one_version_or_an_error);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
