#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/gs_chain.h"
#include "store/gs_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(void *arg, const struct sf_bucket_entry *e)
{
	size_t *told = arg;

	if (!e->key_len || e->key_len > SF_BUCKET_KEY_MAX || strlen(e->key) != e->key_len)
		abort();
	if (!e->is_prefix && (!e->etag[0] || strspn(e->etag, "0123456789") != strlen(e->etag) ||
	                      e->size > INT64_MAX))
		abort();
	*told += e->key_len;
	return 0;
}

/* A page of a listing, twice. */
static void page(const char *text, size_t size)
{
	struct sf_bucket_pager p = { .prefix = "", .delimiter = "/" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf query = { 0 };
	size_t told = 0;
	int r = sf_gs_pager_take(&p, text, size, each, &told, &err);

	if ((r < 0) != (err.msg[0] != '\0') || told > size || (r == 1) != (p.token != NULL))
		abort();
	if (r == 1) { /* its own token again */
		sf_gs_pager_query(&p, &query);
		if (sf_buf_check(&query) < 0 ||
		    sf_gs_pager_take(&p, text, size, each, &told, NULL) != -EBADMSG)
			abort();
	}
	sf_buf_release(&query);
	sf_bucket_pager_release(&p);
}

struct input {
	const char *text;
	size_t size;
};

/* Every server says the input. */
static int ask(void *arg, const struct sf_http_ask *what, struct sf_http_answer *ret,
               struct sf_error *err)
{
	const struct input *in = arg;

	for (const char *const *h = what->headers; h && *h; h++)
		if (strpbrk(*h, "\r\n"))
			abort();
	*ret = (struct sf_http_answer){ .status = in->size % 2 ? 200 : 400 };
	ret->body = malloc(in->size + 1);
	if (!ret->body)
		return sf_fail(err, -ENOMEM, "no memory");
	memcpy(ret->body, in->text, in->size);
	ret->body[in->size] = '\0';
	ret->len = in->size;
	return 0;
}

static int64_t now(void *arg)
{
	(void)arg;
	return 1600000000;
}

static void check(int r, struct sf_gs_token *t, const struct sf_error *err)
{
	if ((r < 0) != (err->msg[0] != '\0') || (r < 0) != (t->token == NULL))
		abort();
	for (const char *c = t->token; c && *c; c++)
		if (*c <= ' ')
			abort();
	sf_gs_token_release(t);
}

/* A credentials file of any kind, and what servers answer to it. */
static void credentials(const char *text, size_t size)
{
	struct input in = { text, size };
	const struct sf_cloud_env env = { .home = "", .ask = ask, .ask_arg = &in, .now = now };
	struct sf_gs_token t = { .token = NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_json *j;
	char *who = NULL;

	check(sf_gs_reply(text, size, 0, &t, &err), &t, &err);
	/* it would name files of this machine */
	if (memmem(text, size, "file", 4) || sf_json_parse_most(text, size, 10000, &j, NULL) < 0)
		return;
	err.msg[0] = '\0';
	check(sf_gs_key_token(&env, sf_json_root(j), SF_GS_SCOPE_READ, &t, &who, &err), &t, &err);
	free(who);
	sf_json_wipe(j);
}

/* What servers of Google say, and files with credentials. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_gs_object o;
	struct sf_gs_error e;

	page(text, size);
	if ((sf_gs_object_parse(text, size, &o, &err) < 0) != (err.msg[0] != '\0'))
		abort();
	sf_gs_error_parse(text, size, &e);
	for (const char *c = e.message; *c; c++)
		if ((unsigned char)*c < ' ')
			abort();
	credentials(text, size);
	return 0;
}
