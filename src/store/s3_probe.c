#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/near.h"
#include "store/probe.h"
#include "store/s3_list.h"
#include "store/s3_store.h"
#include "store/store_s3.h"

#define NEAR_MOST 5 /* names that are shown of those near */

struct s3_probe {
	struct sf_s3_store *s;
	const struct sf_probe *to;
	char url[512];                     /* of the bucket */
	char first[SF_BUCKET_KEY_MAX + 1]; /* an object with bytes below the prefix */
	char etag[256];
	uint64_t size;
	bool any; /* object or directory below it */
};

/* ---- what is set ---- */

static void say_place(struct s3_probe *p)
{
	struct sf_buf host = { .limit = 4096 }, path = { .limit = 4096 }, url = { .limit = 8192 };
	struct sf_s3_store *s = p->s;

	sf_s3_place_request(&s->place, s->locked.region, NULL, "", &host, &path, &url);
	snprintf(p->url, sizeof(p->url), "%s", sf_buf_cstr(&url));
	sf_probe_say(p->to, SF_PROBE_OK, "endpoint", NULL, "%s (bucket '%s' in the %s; %s)", p->url,
	             s->place.bucket, s->place.by_path ? "path" : "host's name",
	             s->place.host ? "given" : "Amazon's own");
	sf_probe_say(p->to, SF_PROBE_OK, "region", NULL, "%s%s", s->locked.region,
	             s->locked.guessed ? " (none is given: --region, AWS_REGION or the profile)"
	                               : "");
	sf_buf_release(&host);
	sf_buf_release(&path);
	sf_buf_release(&url);
}

/* Whom requests are signed as. Of the key id the last four letters, as the aws program shows it. */
static bool say_credentials(struct s3_probe *p)
{
	struct sf_aws_credentials c = { .expires = 0 };
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_aws_provider_get(p->s->provider, &c, &err);
	char ends[64] = "";

	if (r < 0) {
		sf_probe_say(p->to, SF_PROBE_BAD, "credentials",
		             r == -ENOKEY ? "aws configure makes a profile; AWS_ACCESS_KEY_ID and "
		                            "AWS_SECRET_ACCESS_KEY do as well; --no-sign-request "
		                            "for a public bucket"
		                          : "run what gives them by hand: aws sts "
		                            "get-caller-identity shows whether it does",
		             "%s", err.msg);
		return false;
	}
	if (r == 1) {
		sf_probe_say(p->to, SF_PROBE_OK, "credentials", NULL,
		             "none: nothing is signed (--no-sign-request)");
		return true;
	}
	size_t n = strlen(c.key_id);
	int64_t left = c.expires - p->s->env.now(p->s->env.arg);
	if (c.expires)
		snprintf(ends, sizeof(ends), ", for %" PRId64 " minutes more", left / 60);
	sf_probe_say(p->to, SF_PROBE_OK, "credentials", NULL, "%s (key id ****%s%s%s)", c.from,
	             n > 8 ? c.key_id + n - 4 : "", c.token ? ", of a session" : "", ends);
	sf_aws_credentials_release(&c);
	return true;
}

/* ---- what the server says ---- */

/* What a server refuses with, and what helps. %s: the bucket. */
static const struct {
	const char *code, *what, *remedy;
} codes[] = {
	{ "InvalidAccessKeyId", "access key",
	  "the server knows no such key id: was it deleted, or is it of another provider or "
	  "endpoint? aws sts get-caller-identity" },
	{ "SignatureDoesNotMatch", "secret key",
	  "the secret access key is not the one that belongs to this key id (a blank or line break "
	  "too many?); a proxy that changes headers does the same" },
	{ "InvalidToken", "session token",
	  "it is not the one of this key: take all three of AWS_ACCESS_KEY_ID, "
	  "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN anew" },
	{ "ExpiredToken", "session token", "the credentials have expired: log in again" },
	{ "TokenRefreshRequired", "session token", "the credentials have expired: log in again" },
	{ "RequestTimeTooSkewed", "clock",
	  "this machine's clock is wrong: timedatectl set-ntp true (or chronyc makestep)" },
	{ "NoSuchBucket", "bucket",
	  "check its name, and that the endpoint is the one where it lies: aws s3 ls" },
	{ "AuthorizationHeaderMalformed", "region", "--region NAME names the one of the bucket" },
	{ "PermanentRedirect", "region", "--region NAME names the one of the bucket" },
	{ "InvalidObjectState", "archive",
	  "it lies in an archive: aws s3api restore-object brings it back" },
	{ "InvalidBucketName", "bucket", "no bucket can have this name" },
};

static void say_refused(struct s3_probe *p, const char *doing, const char *permission, int r,
                        const struct sf_error *err)
{
	char code[sizeof(p->s->locked.said)];
	SF_FREE char *remedy = NULL;

	if (sf_probe_transport(p->to, p->url, r, err))
		return;
	pthread_mutex_lock(&p->s->locked.m);
	memcpy(code, p->s->locked.said, sizeof(code));
	pthread_mutex_unlock(&p->s->locked.m);
	for (size_t i = 0; i < SF_ARRAY_LEN(codes); i++)
		if (strcmp(codes[i].code, code) == 0) {
			sf_probe_say(p->to, SF_PROBE_BAD, codes[i].what, codes[i].remedy, "%s",
			             err->msg);
			return;
		}
	if (r == -EACCES) {
		if (asprintf(&remedy,
		             "whom the request is signed as needs %s there (a policy of the user, "
		             "the "
		             "role or the bucket); --request-payer where the reader pays, "
		             "--no-sign-request where the bucket is public",
		             permission) < 0)
			remedy = NULL;
		sf_probe_say(p->to, SF_PROBE_BAD, doing, remedy, "%s", err->msg);
	} else {
		sf_probe_say(
			p->to, SF_PROBE_BAD, "server",
			"is the endpoint the one of S3 itself, not of its web pages or another "
			"service? --endpoint-url",
			"%s", err->msg);
	}
}

static int see_first(void *arg, const struct sf_bucket_entry *e)
{
	struct s3_probe *p = arg;

	p->any = true;
	if (!e->is_prefix && e->size && !*p->first) {
		snprintf(p->first, sizeof(p->first), "%s", e->key);
		snprintf(p->etag, sizeof(p->etag), "%s", e->etag ? e->etag : "");
		p->size = e->size;
	}
	return 0;
}

/* What requests have found out by being refused and mended. */
static void say_mended(struct s3_probe *p, const char *asked)
{
	struct sf_s3_store *s = p->s;
	char region[sizeof(s->locked.region)];
	SF_FREE char *remedy = NULL;
	int64_t skew_s;

	pthread_mutex_lock(&s->locked.m);
	memcpy(region, s->locked.region, sizeof(region));
	skew_s = s->locked.skew_s;
	pthread_mutex_unlock(&s->locked.m);
	if (strcmp(region, asked) != 0) {
		if (asprintf(&remedy, "--region %s, or AWS_REGION, saves being sent there",
		             region) < 0)
			remedy = NULL;
		sf_probe_say(p->to, SF_PROBE_HINT, "region", remedy,
		             "the bucket is in %s, and was asked for in %s", region, asked);
	}
	if (skew_s)
		sf_probe_say(
			p->to, SF_PROBE_HINT, "clock",
			"timedatectl set-ntp true (or chronyc makestep); requests are signed by "
			"the server's clock until then",
			"this machine's clock is %" PRId64 " s %s the server's",
			skew_s < 0 ? -skew_s : skew_s, skew_s < 0 ? "ahead of" : "behind");
}

/* ---- names near one that is not there ---- */

struct near {
	const char *name; /* the part of the prefix that is not there */
	size_t len, base_len;
	struct sf_buf found;
	unsigned n, all;
};

static int see_near(void *arg, const struct sf_bucket_entry *e)
{
	struct near *near = arg;
	const char *name = e->key + near->base_len;
	size_t len = e->key_len - near->base_len - (e->is_prefix ? 1 : 0);
	unsigned allowed = sf_edits_allowed(near->len);

	near->all++;
	/* step900 for step9000, and what was misspelt */
	if (near->n < NEAR_MOST && len &&
	    (sf_edits(near->name, near->len, name, len, allowed) <= allowed ||
	     strncmp(name, near->name, SF_MIN(len, near->len)) == 0)) {
		sf_buf_printf(&near->found, "%s%.*s%s", near->n++ ? ", " : "",
		              (int)SF_MIN(len, (size_t)200), name, e->is_prefix ? "/" : "");
	}
	return 0;
}

/* The longest beginning of the prefix that has something below it, and what is there. */
static void say_missing(struct s3_probe *p)
{
	SF_FREE char *at = strdup(p->s->prefix);
	size_t len = at ? strlen(at) : 0;

	while (len) {
		struct near near = { .found = { .limit = 4096 } };
		struct sf_bucket_pager pager = { .delimiter = "/", .max_keys = 1000 };
		SF_FREE char *name = NULL, *remedy = NULL;
		size_t end = len - 1; /* without its '/' */
		int r;

		for (len = end; len && at[len - 1] != '/'; len--)
			;
		name = strndup(at + len, end - len);
		at[len] = '\0';
		if (!name)
			return;
		near.name = name;
		near.len = end - len;
		near.base_len = len;
		pager.prefix = at;
		r = sf_s3_page(&p->s->r.s, &pager, see_near, &near, NULL);
		sf_bucket_pager_release(&pager);
		const char *where = len ? at : "the bucket";
		if (r >= 0 && (near.all || !len)) {
			if (near.n && asprintf(&remedy, "near in %s: %s", where,
			                       sf_buf_cstr(&near.found)) < 0)
				remedy = NULL;
			sf_probe_say(p->to, SF_PROBE_BAD, "prefix",
			             remedy ? remedy : "aws s3 ls shows what is there",
			             near.all ? "nothing is called '%.300s' in %.300s"
			                      : "there is nothing: neither '%.300s' nor anything "
			                        "else in %.300s",
			             name, where);
			sf_buf_release(&near.found);
			return;
		}
		sf_buf_release(&near.found);
		if (r < 0)
			break;
	}
	sf_probe_say(p->to, SF_PROBE_BAD, "prefix", "aws s3 ls shows what is there",
	             "there is nothing below '%.300s'", p->s->prefix);
}

/* ---- a byte of an object ---- */

static bool say_read(struct s3_probe *p)
{
	const char *name = p->first + strlen(p->s->prefix);
	/* no HEAD, whose refusal does not say why */
	const struct sf_objinfo want = { .size = p->size,
		                         .version.etag = *p->etag ? p->etag : NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src = NULL;
	uint8_t byte;
	int r = p->s->r.s.ops->open(&p->s->r.s, name, &want, &src, &err);

	if (r >= 0)
		r = sf_source_read(src, 0, &byte, 1, SF_FETCH_METADATA, &err);
	sf_source_unref(src);
	if (r < 0) {
		say_refused(p, "reading", "s3:GetObject (and kms:Decrypt, where it is encrypted)",
		            r, &err);
		return false;
	}
	sf_probe_say(p->to, SF_PROBE_OK, "reading", NULL, "a byte of '%.300s'", name);
	return true;
}

bool sf_s3_probe(struct sf_store *store, const struct sf_probe *to)
{
	struct s3_probe p = { .s = (struct sf_s3_store *)store, .to = to };
	struct sf_bucket_pager pager = { .prefix = p.s->prefix, .delimiter = "/", .max_keys = 100 };
	struct sf_error err = SF_ERROR_INIT;
	char asked[sizeof(p.s->locked.region)];
	int r;

	say_place(&p);
	sf_probe_world(to, p.url, sf_remote_ca_bundle(&p.s->r));
	if (!say_credentials(&p))
		return false;
	pthread_mutex_lock(&p.s->locked.m);
	memcpy(asked, p.s->locked.region, sizeof(asked));
	pthread_mutex_unlock(&p.s->locked.m);
	r = sf_s3_page(store, &pager, see_first, &p, &err);
	sf_bucket_pager_release(&pager);
	say_mended(&p, asked);
	if (r < 0) {
		say_refused(&p, "listing", "s3:ListBucket", r, &err);
		return false;
	}
	sf_probe_say(to, SF_PROBE_OK, "listing", NULL, "the bucket may be listed");
	if (!p.any) {
		say_missing(&p);
		return false;
	}
	return !*p.first || say_read(&p);
}
