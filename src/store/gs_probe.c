#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/bucket_probe.h"
#include "store/gs_store.h"

#define SKEW_LEAST_S 300 /* of an answer's Date: some answers come from caches */
#define LOGIN "gcloud auth application-default login"

struct gs_probe {
	struct sf_bucket_probe b;
	struct sf_gs_store *s;
	const struct sf_probe *to;
	char url[512]; /* of the bucket */
};

/* ---- what is set ---- */

static void say_place(struct gs_probe *p)
{
	struct sf_buf url = { .limit = 8192 };
	struct sf_gs_store *s = p->s;

	sf_gs_place_url(&s->place, NULL, "", &url);
	snprintf(p->url, sizeof(p->url), "%s", sf_buf_cstr(&url));
	sf_probe_say(p->to, SF_PROBE_OK, "endpoint", NULL, "%s (bucket '%s'; %s)", p->url,
	             s->place.bucket,
	             s->emulated   ? "of STORAGE_EMULATOR_HOST"
	             : s->b.r.s.at ? "given"
	                           : "Google's own");
	sf_buf_release(&url);
}

static int64_t skew_of(struct sf_gs_store *s)
{
	int64_t skew_s;

	pthread_mutex_lock(&s->locked.m);
	skew_s = s->locked.skew_s;
	pthread_mutex_unlock(&s->locked.m);
	return skew_s < SKEW_LEAST_S && skew_s > -SKEW_LEAST_S ? 0 : skew_s;
}

/* Is the clock the reason why no token is given? The bucket is asked as nobody, for the time of day. */
static bool say_clock(struct gs_probe *p)
{
	struct sf_http_answer a = { 0 };
	int64_t skew_s;

	if (sf_gs_ask_nobody(p->s, &a, NULL) < 0)
		return false;
	sf_http_answer_release(&a);
	skew_s = skew_of(p->s);
	if (skew_s)
		sf_probe_clock(p->to, SF_PROBE_BAD, skew_s,
		               "no token is given to a service account whose clock is wrong");
	return skew_s != 0;
}

/* Why there is no token. */
static void say_no_token(struct gs_probe *p, int r, const struct sf_error *err)
{
	SF_FREE char *file = sf_cloud_var(&p->s->b.env, "GOOGLE_APPLICATION_CREDENTIALS");
	const char *remedy;

	/* whoever gives tokens is another server than the bucket's */
	if (sf_probe_transport(p->to, "https://", r, err))
		return;
	if (r == -EACCES && !(file && access(file, R_OK) < 0) && say_clock(p))
		return;
	if (r == -ENOKEY)
		remedy = LOGIN ", or GOOGLE_APPLICATION_CREDENTIALS=FILE with the key of a "
			       "service account; --no-sign-request for a public bucket";
	else if (file && access(file, R_OK) < 0)
		remedy = "GOOGLE_APPLICATION_CREDENTIALS names a file that this user can read: "
			 "mend it or unset it";
	else if (r == -EACCES)
		remedy = "what the file holds is good no longer: " LOGIN ", or another key of the "
			 "service account (gcloud iam service-accounts keys create)";
	else
		remedy = "gcloud auth application-default print-access-token shows whether it is "
			 "good; " LOGIN " makes it anew";
	sf_probe_say(p->to, SF_PROBE_BAD, "credentials", remedy, "%s", err->msg);
}

/* Of the token nothing is shown. */
static bool say_credentials(struct gs_probe *p)
{
	struct sf_gs_token t = { .token = NULL };
	struct sf_error err = SF_ERROR_INIT;
	char ends[64] = "";
	const char *payer;
	int r;

	if (!p->s->provider) {
		sf_probe_say(p->to, SF_PROBE_OK, "credentials", NULL, "none: %s",
		             p->s->emulated ? "an emulator is asked (STORAGE_EMULATOR_HOST)"
		                            : "nobody is signed in (--no-sign-request)");
		return true;
	}
	r = sf_gs_provider_get(p->s->provider, &t, &err);
	if (r < 0) {
		say_no_token(p, r, &err);
		return false;
	}
	if (t.expires)
		snprintf(ends, sizeof(ends), " (for %" PRId64 " minutes more)",
		         (t.expires - p->s->b.env.now(p->s->b.env.arg)) / 60);
	payer = p->s->project ? p->s->project : t.project;
	sf_probe_say(p->to, SF_PROBE_OK, "credentials", NULL, "%s%s%s%s", t.from, ends,
	             payer ? "; who pays is project " : "", payer ? payer : "");
	sf_gs_token_release(&t);
	return true;
}

/* ---- what the server says ---- */

/* Source: cloud.google.com/storage/docs/json_api/v1/status-codes, and what it was seen to say. */
static const struct sf_probe_word words[] = {
	{ "notFound", "bucket",
	  "check its name: gcloud storage ls shows the buckets of a project" },
	{ "invalidBucketName", "bucket", "no bucket can have this name" },
	{ "userProjectMissing", "who pays",
	  "--user-project PROJECT names one of yours that pays for what is read" },
	{ "userProjectAccessDenied", "who pays",
	  "whom the request is made as needs serviceusage.services.use in that project "
	  "(roles/serviceusage.serviceUsageConsumer), or name another: --user-project" },
	{ "userProjectInvalid", "who pays", "--user-project names a project by its id" },
	{ "accountDisabled", "account",
	  "the project that pays has no billing account that is open: see its billing page" },
	{ "accessNotConfigured", "project",
	  "gcloud services enable storage.googleapis.com lets it be asked in this project" },
	{ NULL, NULL, NULL },
};

static bool refused(const struct sf_bucket_probe *b, const char *doing, const struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)b->s;
	char reason[sizeof(s->locked.said)];
	unsigned status;

	pthread_mutex_lock(&s->locked.m);
	memcpy(reason, s->locked.said, sizeof(reason));
	status = s->locked.status;
	pthread_mutex_unlock(&s->locked.m);
	if (sf_probe_word(b->to, words, reason, err))
		return true;
	if (status != 401)
		return false;
	if (s->provider)
		sf_probe_say(b->to, SF_PROBE_BAD, "credentials",
		             "the token is of another server, or whom it stands for is disabled or "
		             "deleted: " LOGIN,
		             "%s", err->msg);
	else
		sf_probe_say(b->to, SF_PROBE_BAD, doing,
		             "the bucket is not public, or there is none of this name: ask as "
		             "somebody, without --no-sign-request",
		             "%s", err->msg);
	return true;
}

static void say_skew(const struct sf_bucket_probe *b)
{
	int64_t skew_s = skew_of((struct sf_gs_store *)b->s);

	if (skew_s)
		sf_probe_clock(b->to, SF_PROBE_HINT, skew_s,
		               "certificates and the keys of service accounts depend on it");
}

bool sf_gs_probe(struct sf_store *store, const struct sf_probe *to)
{
	struct gs_probe p = { .s = (struct sf_gs_store *)store, .to = to };

	say_place(&p);
	sf_probe_world(to, p.url, &p.s->b.r);
	if (!say_credentials(&p))
		return false;
	p.b = (struct sf_bucket_probe){
		.to = to,
		.s = store,
		.ops = p.s->b.pages,
		.prefix = p.s->b.prefix,
		.url = p.url,
		.may_list = SF_GS_MAY_LIST,
		.may_read = SF_GS_MAY_READ,
		.denied = SF_GS_DENIED,
		.look = SF_GS_LOOK,
		.server = "is the endpoint the one of Google Cloud Storage's JSON API? "
			  "--endpoint-url, STORAGE_EMULATOR_HOST",
		.asked = say_skew,
		.refused = refused,
	};
	return sf_bucket_probe(&p.b);
}
