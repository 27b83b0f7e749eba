/* What is wrong with a bucket, whoever keeps it: what the probes of S3 and of Google's storage share. */
#ifndef SF_STORE_BUCKET_PROBE_H
#define SF_STORE_BUCKET_PROBE_H

#include "store/bucket_dirs.h"
#include "store/probe.h"

struct sf_bucket_probe {
	const struct sf_probe *to;
	struct sf_store *s;
	const struct sf_bucket_ops *ops;
	const char *prefix; /* of the store's keys: "" or with '/' at its end */
	const char *url;    /* that is asked */
	/* what those permissions are called there, what else helps who lacks them, and the program
	 * that shows what a bucket has */
	const char *may_list, *may_read, *denied, *look;
	const char *server; /* what to check when answers are none of such a server */
	/* The bucket was asked for the first time: what that has found out. NULL: nothing. */
	void (*asked)(const struct sf_bucket_probe *p);
	/* A refusal by its own words: told, true; else its errno and the permission for @doing
	 * ("listing", "reading") decide. */
	bool (*refused)(const struct sf_bucket_probe *p, const char *doing,
	                const struct sf_error *err);
};

/* What these are of Google's buckets, which two probes ask. */
#define SF_GS_MAY_LIST "storage.objects.list"
#define SF_GS_MAY_READ "storage.objects.get"
#define SF_GS_DENIED                                                                               \
	"roles/storage.objectViewer has it), or the bucket is not there; --no-sign-request where " \
	"it is public"
#define SF_GS_LOOK "gcloud storage ls"

/* Lists, and reads a byte of the first object with bytes: sf_store_probe() for the bucket's part. */
bool sf_bucket_probe(const struct sf_bucket_probe *p);

/* What a server refuses with, and what helps; a table of them ends with code NULL. */
struct sf_probe_word {
	const char *code, *what, *remedy;
};
/* False: the table does not know @code. */
bool sf_probe_word(const struct sf_probe *to, const struct sf_probe_word *words, const char *code,
                   const struct sf_error *err);

#endif
