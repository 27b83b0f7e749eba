#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/bucket_probe.h"
#include "store/s3_store.h"
#include "store/store_s3.h"

#define NEAR_MOST 5 /* names that are shown of those near */

struct s3_probe {
	struct sf_bucket_probe b;
	struct sf_s3_store *s;
	const struct sf_probe *to;
	bool google;    /* by keys of HMAC: gs:// */
	char url[512];  /* of the bucket */
	char asked[64]; /* the region that is asked first */
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
	             !s->place.host ? "Amazon's own"
	             : p->google    ? "asked as S3 is"
	                            : "given");
	if (!p->google)
		sf_probe_say(p->to, SF_PROBE_OK, "region", NULL, "%s%s", s->locked.region,
		             s->locked.guessed
		                     ? " (none is given: --region, AWS_REGION or the profile)"
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
	int64_t left = c.expires - p->s->b.env.now(p->s->b.env.arg);
	if (c.expires)
		snprintf(ends, sizeof(ends), ", for %" PRId64 " minutes more", left / 60);
	sf_probe_say(p->to, SF_PROBE_OK, "credentials", NULL, "%s (key id ****%s%s%s)",
	             p->google ? "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY" : c.from,
	             n > 8 ? c.key_id + n - 4 : "", c.token ? ", of a session" : "", ends);
	sf_aws_credentials_release(&c);
	return true;
}

/* ---- what the server says ---- */

static const struct sf_probe_word words[] = {
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
	{ NULL, NULL, NULL },
};

/* Before those, of Google's keys for it. */
#define KEYS "the console has them: Cloud Storage, Settings, Interoperability"
static const struct sf_probe_word google_words[] = {
	{ "InvalidAccessKeyId", "access key", "GS_ACCESS_KEY_ID is no key that is in use: " KEYS },
	{ "InvalidSecurity", "access key", "GS_ACCESS_KEY_ID is no key that is in use: " KEYS },
	{ "SignatureDoesNotMatch", "secret key",
	  "GS_SECRET_ACCESS_KEY is not the one that belongs to this key id: " KEYS },
	{ "NoSuchBucket", "bucket",
	  "check its name: gcloud storage ls shows the buckets of a project" },
	{ NULL, NULL, NULL },
};

static bool refused(const struct sf_bucket_probe *b, const char *doing, const struct sf_error *err)
{
	struct sf_s3_store *s = (struct sf_s3_store *)b->s;
	char code[sizeof(s->locked.said)];

	(void)doing;
	pthread_mutex_lock(&s->locked.m);
	memcpy(code, s->locked.said, sizeof(code));
	pthread_mutex_unlock(&s->locked.m);
	if (sf_container_of(b, const struct s3_probe, b)->google &&
	    sf_probe_word(b->to, google_words, code, err))
		return true;
	return sf_probe_word(b->to, words, code, err);
}

/* What requests have found out by being refused and mended. */
static void say_mended(const struct sf_bucket_probe *b)
{
	const struct s3_probe *p = sf_container_of(b, const struct s3_probe, b);
	struct sf_s3_store *s = p->s;
	char region[sizeof(s->locked.region)];
	SF_FREE char *remedy = NULL;
	int64_t skew_s;

	pthread_mutex_lock(&s->locked.m);
	memcpy(region, s->locked.region, sizeof(region));
	skew_s = s->locked.skew_s;
	pthread_mutex_unlock(&s->locked.m);
	if (strcmp(region, p->asked) != 0) {
		if (asprintf(&remedy, "--region %s, or AWS_REGION, saves being sent there",
		             region) < 0)
			remedy = NULL;
		sf_probe_say(p->to, SF_PROBE_HINT, "region", remedy,
		             "the bucket is in %s, and was asked for in %s", region, p->asked);
	}
	if (skew_s)
		sf_probe_clock(p->to, SF_PROBE_HINT, skew_s,
		               "requests are signed by the server's clock until then");
}

bool sf_s3_probe(struct sf_store *store, const struct sf_probe *to)
{
	struct s3_probe p = { .s = (struct sf_s3_store *)store,
		              .to = to,
		              .google = strncmp(store->source, "gs:", 3) == 0 };

	say_place(&p);
	sf_probe_world(to, p.url, &p.s->b.r);
	if (!say_credentials(&p))
		return false;
	pthread_mutex_lock(&p.s->locked.m);
	memcpy(p.asked, p.s->locked.region, sizeof(p.asked));
	pthread_mutex_unlock(&p.s->locked.m);
	p.b = (struct sf_bucket_probe){
		.to = to,
		.s = store,
		.ops = p.s->b.pages,
		.prefix = p.s->b.prefix,
		.url = p.url,
		.may_list = p.google ? SF_GS_MAY_LIST : "s3:ListBucket",
		.may_read = p.google ? SF_GS_MAY_READ
		                     : "s3:GetObject (and kms:Decrypt, where it is encrypted)",
		.denied = p.google ? SF_GS_DENIED
		                   : "a policy of the user, the role or the bucket); "
		                     "--request-payer where the reader pays, --no-sign-request "
		                     "where the bucket is public",
		.look = p.google ? SF_GS_LOOK : "aws s3 ls",
		.server = "is the endpoint the one of S3 itself, not of its web pages or another "
			  "service? --endpoint-url",
		.asked = say_mended,
		.refused = refused,
	};
	return sf_bucket_probe(&p.b);
}
