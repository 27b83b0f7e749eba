/* Objects that are written: in parts, in any order, side by side; each appears whole or not at all. */
#ifndef SF_STORE_UPLOAD_H
#define SF_STORE_UPLOAD_H

#include <stdatomic.h>
#include "store/store.h"

/*
 * What uploads of one save share.
 *
 * Memory: parts that are filled or on their way, of part_bytes each, charged to @budget as
 * SF_BUDGET_FETCH: sf_upload_write waits for room. Beside it one part of each upload is always allowed; and, where
 * nothing is on its way whose end could be waited for (parts are begun and none is full), more: so who
 * writes all over an object of unfinished parts holds all of those.
 * Threads: sf_upload_put, _remove, _sweep and uploads of their own side by side on any; parts are sent by up to
 * @throttle threads of ours, which begin with the first part.
 */
struct sf_uploads {
	struct sf_store *store;
	struct sf_budget *budget; /* NULL: as many parts as twice the throttle */
	_Atomic bool *cancel;     /* -ECANCELED soon after it is set; NULL: when io->stop is */
	unsigned throttle;   /* requests with a body under way at once, of all uploads; 0: 16 */
	uint64_t part_bytes; /* of a part, at least; 0: 8 MiB */
	/* the rest is upload.c's */
	struct sf_uploads_state *state;
};
/* The fields above are set. -ENOTSUP: the store cannot be written to. */
int sf_uploads_init(struct sf_uploads *u, struct sf_error *err);
/* All uploads were finished or dropped; after a failed init nothing is to be released. */
void sf_uploads_release(struct sf_uploads *u);

/* When the object's name is taken at the end: whatever is there; or only where nothing is, else
 * sf_upload_finish is -EEXIST. A server that ignores that condition is found out by looking first: then there is
 * a moment between both. */
enum sf_upload_if { SF_UPLOAD_REPLACE, SF_UPLOAD_CREATE };
struct sf_upload_options {
	uint64_t size; /* of the object; 0: not known before its end */
	enum sf_upload_if when;
	const char *type; /* Content-Type; NULL: application/octet-stream */
};

/*
 * One object that is being written; of one thread at a time, several side by side.
 *
 * begin   nothing is asked of the server yet.
 * write   @len bytes at @off; each byte once, in any order; what is given is copied, and a part goes up when
 *         all of its bytes are there. Waits while there is no room. A failure of a part is told by the next call. What
 *         failed once has failed for good: all calls that follow tell the same.
 * finish  all parts are there and the object has its name; durable then. *ret_etag: malloc'ed, may be NULL.
 *         Where the size was given and other bytes came: -EINVAL with both numbers.
 * drop    nothing of it is left at the server, as far as that can be reached: parts are called off. To be
 *         called after a failed finish too. A finish that succeeded and drop free it; NULL is fine.
 *
 * An object of one part is one PUT. Else S3's multipart upload; Google's parts are objects of their own
 * (NAME.part-TOKEN-N), composed at the end and removed.
 * Each request is tried again as reads are (http_retry.h): 5xx, cut connections, throttling, credentials that
 * expired meanwhile, a region or clock that was wrong. An answer that was lost is looked up: a finish that the
 * server did is not told as a failure. Each part has a checksum that the server verifies, where it knows it.
 * Errors: -EACCES, -ENOENT no such bucket, -ENOTSUP the store cannot be written to (https://), -EEXIST, -EFBIG
 *         more than the server's parts can hold, -EIO with what the server says; the transport's; with the
 *         object's URL as it may be shown.
 */
struct sf_upload;
int sf_upload_begin(struct sf_uploads *u, const char *name, const struct sf_upload_options *o,
                    struct sf_upload **ret, struct sf_error *err);
int sf_upload_write(struct sf_upload *up, uint64_t off, const void *at, size_t len,
                    struct sf_error *err);
int sf_upload_finish(struct sf_upload *up, char **ret_etag, struct sf_error *err);
void sf_upload_drop(struct sf_upload *up);

/* A small object, whole: one PUT. Any thread. */
int sf_upload_put(struct sf_uploads *u, const char *name, const void *at, size_t len,
                  enum sf_upload_if when, char **ret_etag, struct sf_error *err);
/* The objects @names go, side by side; one that is not there is fine. The first failure is told when all were
 * tried. */
int sf_upload_remove(struct sf_uploads *u, const char *const *names, size_t n,
                     struct sf_error *err);
/* Unfinished uploads below @prefix whose object's name @which says yes to are called off: what a killed
 * process left. */
int sf_upload_sweep(struct sf_uploads *u, const char *prefix,
                    bool (*which)(void *arg, const char *name), void *arg, struct sf_error *err);

/*
 * What a store gives for it: sf_store_ops.put; NULL: it cannot be written to. All wait, on any thread but the
 * transport's; several at once of one object. @etag: malloc'ed, NULL where the server tells none. Each is one request, tried
 * again until it is answered for good. Messages do not name the object: upload.c does.
 */
struct sf_put_to {
	const char *name;       /* relative to the store */
	const char *type;       /* Content-Type; NULL: application/octet-stream */
	enum sf_upload_if when; /* of put and finish */
	const _Atomic bool
		*stop; /* true: it is not waited for any longer, -ECANCELED; NULL: the io's */
};
struct sf_put_body {
	const void *at;
	size_t len;
};
struct sf_put_ops {
	/* parts: bytes of all but the last, and how many there may be of an object */
	uint64_t part_min, part_max;
	uint32_t parts_max;
	/* One request. -EEXIST: SF_UPLOAD_CREATE, and there is one. */
	int (*put)(struct sf_store *s, const struct sf_put_to *to, const struct sf_put_body *body,
	           char **ret_etag, struct sf_error *err);
	/* @id: malloc'ed, of this upload. */
	int (*begin)(struct sf_store *s, const struct sf_put_to *to, char **ret_id,
	             struct sf_error *err);
	/* Part @number (from 0); @etag as finish wants it, never NULL. */
	int (*part)(struct sf_store *s, const struct sf_put_to *to, const char *id, uint32_t number,
	            const struct sf_put_body *body, char **ret_etag, struct sf_error *err);
	/* All @n parts, in order, become the object. */
	int (*finish)(struct sf_store *s, const struct sf_put_to *to, const char *id,
	              const char *const *etag, uint32_t n, char **ret_etag, struct sf_error *err);
	/* Nothing of it is left, however far it came; -ENOENT: it was not there. */
	int (*abort)(struct sf_store *s, const struct sf_put_to *to, const char *id,
	             struct sf_error *err);
	int (*remove)(struct sf_store *s, const struct sf_put_to *to,
	              struct sf_error *err); /* -ENOENT */
	/* Unfinished uploads below the prefix @to->name, of @each (name, id); its negative result ends it. */
	int (*unfinished)(struct sf_store *s, const struct sf_put_to *to,
	                  int (*each)(void *arg, const char *name, const char *id), void *arg,
	                  struct sf_error *err);
};

#endif
