/* Writing objects to Google's storage: what gs_put.c (whole objects) and gs_put_parts.c share. */
#ifndef SF_STORE_GS_PUT_H
#define SF_STORE_GS_PUT_H

#include "store/gs_store.h"

#define SF_GS_ID_BYTES 8
#define SF_GS_ANSWER_MAX (1 << 20) /* bytes */

/* Objects that are written have a number of ours in their metadata: when an answer was lost, it tells whether the
 * object that is there is the one that was written. */
struct sf_gs_writing {
	struct sf_gs_store *s;
	const struct sf_put_to *to;
	char *key; /* malloc'ed */
	char id[2 * SF_GS_ID_BYTES + 1];
};
/* -ENOMEM, -EIO no random number. Failed or not, key is to be freed. */
int sf_gs_begin_writing(struct sf_gs_writing *w, struct sf_store *store, const struct sf_put_to *to,
                        struct sf_error *err);

/* Where nothing may be replaced: -EEXIST there is an object. 0: there is none, or it may. */
int sf_gs_look_first(struct sf_gs_writing *w, struct sf_error *err);
/* A request for the whole object ended with @r, or was answered 412 (@met false): 0 it is there all the same,
 * *ret_generation malloc'ed; else @r, or -EEXIST. */
int sf_gs_look_up(struct sf_gs_writing *w, int r, bool met, char **ret_generation,
                  struct sf_error *err);
/* An answer that is none of what was asked for: what it says. */
int sf_gs_refused(const struct sf_http_answer *a, int r, struct sf_error *err);

/* What an object's description says of its generation (malloc'ed) and of its bytes: they are @md5, where both are known;
 * NULL: not compared. -EBADMSG: it is none, or other bytes arrived. */
int sf_gs_take_written(const struct sf_http_answer *a, const char *md5, char **ret_generation,
                       struct sf_error *err);
/* Appends the members "contentType" and "metadata" of a description. */
void sf_gs_describe(const struct sf_gs_writing *w, struct sf_buf *to);

/* An object goes: -ENOENT it was not there. */
int sf_gs_delete(struct sf_gs_store *s, const char *key, const _Atomic bool *stop,
                 struct sf_error *err);

/* Of struct sf_put_ops; the rest is gs_put_parts.c's. */
int sf_gs_put_whole(struct sf_store *store, const struct sf_put_to *to,
                    const struct sf_put_body *body, char **ret_etag, struct sf_error *err);
int sf_gs_remove(struct sf_store *store, const struct sf_put_to *to, struct sf_error *err);

#endif
