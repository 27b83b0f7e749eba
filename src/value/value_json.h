/* value.json: a pickled value as strict JSON. What follows sf_value_json is the walk, and what it is
 * given for classes it knows: for value/ and its tests. */
#ifndef SF_VALUE_VALUE_JSON_H
#define SF_VALUE_VALUE_JSON_H

#include "base/buf.h"
#include "parse/pickle_read.h"

#define SF_VJ_DEPTH 400 /* JSON nesting; readers stop at about 1,000 */
/* values written: what a shared pointer shows twice counts twice */
#define SF_VJ_NODES (4u << 20)
#define SF_VJ_BYTES (256u << 20)
#define SF_VJ_ARRAY 65536 /* elements of a numpy array written as numbers */

/* value.json (docs/man/shardfuse.1): strict JSON of a value. Limits: depth, and a node budget against
 * shared-pointer bombs. A value that holds itself: {"$cycle": true} in the inner place. -E2BIG a
 * limit. */
int sf_value_json(struct sf_buf *out, const struct sf_pv *v, struct sf_error *err);

struct sf_vj {
	struct sf_buf *out;
	uint32_t nodes;
	uint64_t divisions; /* for the decimal digits of large integers */
	unsigned depth;
	const struct sf_pv *open[SF_VJ_DEPTH]; /* shared values being written now: meeting one again
	                                          is a cycle */
	unsigned nopen;
	struct sf_error *err;
};

int sf_vj_value(struct sf_vj *j, const struct sf_pv *v);
int sf_vj_seq(struct sf_vj *j, const struct sf_pv *v); /* [ … ] of a TUPLE, LIST, SET, FROZENSET */
int sf_vj_dict(struct sf_vj *j, const struct sf_pv *v); /* of a DICT */
void sf_vj_str(struct sf_vj *j, const char *s, size_t len);
void sf_vj_double(struct sf_vj *j, double f,
                  bool single); /* single: shortest text that is right as a float32 */
void sf_vj_int(struct sf_vj *j, int64_t i);
void sf_vj_uint(struct sf_vj *j, uint64_t i);
void sf_vj_base64(struct sf_vj *j, const char *p, size_t len); /* {"$bytes": …} */

/*
 * value_class.c - bytes as protocol 2 spells them: _codecs.encode(latin-1 text, "latin1"),
 * bytearray of that, or BYTES themselves. *ret borrows from @v or from @own, which the caller
 * releases. False: no bytes.
 */
bool sf_vj_get_bytes(const struct sf_pv *v, struct sf_buf *own, const char **ret, size_t *ret_len);
/* value_class.c - a CALL, OBJECT, GLOBAL or PERSID. */
int sf_vj_class(struct sf_vj *j, const struct sf_pv *v);
/* value_numpy.c - 1 when @v is a numpy scalar, array or dtype and was written; 0 when it is
 * none. */
int sf_vj_numpy(struct sf_vj *j, const struct sf_pv *v);

#endif
