/* The public interface on what lies behind HTTP: the context's options reach the stores. */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "shardfuse.h"
#include "tests/lib/http_server.h"
#include "tests/lib/sf_test.h"

#define CKPT "dcp/flat/ckpt"
#define LIST "/b?delimiter=%2F&encoding-type=url&list-type=2&prefix=ckpt%2F"

static const char *const file[] = { ".metadata", "__0_0.distcp", "__1_0.distcp" };
#define FILES SF_ARRAY_LEN(file)

/* A checkpoint: below /b/ckpt, and in a bucket's listing. */
struct world {
	struct sf_http_server s;
	struct sf_http_object object[FILES + 1];
	char path[FILES][256], *at[FILES], list[2048];
};

static void *read_file(const char *name, uint64_t *ret_len)
{
	char dir[4096], path[4200];
	FILE *f;
	long n;
	char *p;

	snprintf(path, sizeof(path), "%s/%s", sf_test_data(dir, CKPT), name);
	f = fopen(path, "re");
	ck_assert_msg(f != NULL, "%s", path);
	fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	p = malloc((size_t)n);
	ck_assert_uint_eq(fread(p, 1, (size_t)n, f), (size_t)n);
	fclose(f);
	*ret_len = (uint64_t)n;
	return p;
}

static void serve(struct world *w)
{
	size_t n;

	memset(w, 0, sizeof(*w));
	n = (size_t)snprintf(w->list, sizeof(w->list),
	                     "<ListBucketResult><Name>b</Name><Prefix>ckpt%%2F</Prefix>"
	                     "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>");
	for (size_t i = 0; i < FILES; i++) {
		struct sf_http_object *o = &w->object[i];
		w->at[i] = read_file(file[i], &o->len);
		snprintf(w->path[i], sizeof(w->path[i]), "/b/ckpt/%s", file[i]);
		o->at = w->at[i];
		o->path = w->path[i];
		o->etag = i ? "\"data\"" : "\"metadata\"";
		n += (size_t)snprintf(w->list + n, sizeof(w->list) - n,
		                      "<Contents><Key>ckpt%%2F%s</Key><LastModified>"
		                      "2026-11-01T00:00:00.000Z</LastModified><ETag>%s</ETag>"
		                      "<Size>%llu</Size></Contents>",
		                      file[i], o->etag, (unsigned long long)o->len);
	}
	n += (size_t)snprintf(w->list + n, sizeof(w->list) - n, "</ListBucketResult>");
	w->object[FILES] = (struct sf_http_object){ .path = LIST, .at = w->list, .len = n };
	w->s.object = w->object;
	w->s.nobjects = FILES + 1;
	ck_assert_int_eq(sf_http_server_start(&w->s), 0);
}

static void stop(struct world *w)
{
	sf_http_server_stop(&w->s);
	for (size_t i = 0; i < FILES; i++)
		free(w->at[i]);
}

/* Opens @source, reads every tensor, and holds it against the local directory's. */
static void read_all(const struct shardfuse_context_options *opt, const char *source)
{
	struct shardfuse_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_context *ctx;
	struct shardfuse *h, *here;
	char path[4096];
	uint64_t i;

	ck_assert_int_eq(shardfuse_context_new(opt, &ctx, &err), 0);
	ck_assert_int_eq(shardfuse_open(NULL, sf_test_data(path, CKPT), NULL, &here, &err), 0);
	ck_assert_msg(shardfuse_open(ctx, source, NULL, &h, &err) == 0, "%s", err.msg);
	for (i = 0; shardfuse_tensor_info(h, i, &t, NULL) == 0; i++) {
		char *a = calloc(1, t.bytes + 1), *b = calloc(1, t.bytes + 1);
		ck_assert_msg(shardfuse_tensor_read(h, i, 0, a, t.bytes, &err) == 0, "%s", err.msg);
		ck_assert_int_eq(shardfuse_tensor_read(here, i, 0, b, t.bytes, &err), 0);
		ck_assert_mem_eq(a, b, t.bytes + 1);
		free(a);
		free(b);
	}
	ck_assert_uint_eq(i, 2);
	shardfuse_close(here);
	shardfuse_close(h);
	shardfuse_context_free(ctx);
}

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

START_TEST(a_bucket_is_reached_as_the_context_says)
{
	struct shardfuse_context_options opt = SHARDFUSE_INIT(opt);
	struct world w;

	serve(&w);
	opt.endpoint_url = w.s.url;
	opt.no_sign_request = 1;
	opt.addressing = "path";
	read_all(&opt, "s3://b/ckpt");
	ck_assert_uint_gt(w.s.requests, 2);
	stop(&w);
}
END_TEST

START_TEST(what_no_store_understands_is_said)
{
	struct shardfuse_context_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_context *ctx;
	struct shardfuse *h;

	opt.endpoint_url = "ftp://there";
	opt.no_sign_request = 1;
	ck_assert_int_eq(shardfuse_context_new(&opt, &ctx, &err), 0);
	ck_assert_int_eq(shardfuse_open(ctx, "s3://b/ckpt", NULL, &h, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "endpoint"));
	shardfuse_context_free(ctx);
}
END_TEST

START_TEST(nothing_is_kept_on_disk_unless_the_context_says_where)
{
	struct shardfuse_context_options opt = SHARDFUSE_INIT(opt);
	char home[] = "/tmp/sf-test-XXXXXX", source[128], cache[64], rm[64];
	struct world w;
	uint64_t first;

	ck_assert_ptr_nonnull(mkdtemp(home));
	ck_assert_int_eq(setenv("XDG_CACHE_HOME", home, 1), 0);
	serve(&w);
	snprintf(source, sizeof(source), "%s/b/ckpt", w.s.url);
	read_all(&opt, source);
	ck_assert_uint_eq(entries(home), 2); /* . and .. */

	snprintf(cache, sizeof(cache), "%s/kept", home);
	opt.cache_dir = cache;
	read_all(&opt, source);
	first = w.s.body_bytes;
	ck_assert_uint_gt(entries(cache), 2);
	read_all(&opt, source);
	ck_assert_uint_eq(w.s.body_bytes, first);
	stop(&w);
	snprintf(rm, sizeof(rm), "rm -rf %s", home);
	ck_assert_int_eq(system(rm), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("library_store");
	TCase *tc = tcase_create("shardfuse.h, remote");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_bucket_is_reached_as_the_context_says);
	tcase_add_test(tc, what_no_store_understands_is_said);
	tcase_add_test(tc, nothing_is_kept_on_disk_unless_the_context_says_where);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
