/* The scanner's machine, shared by its files: the opcodes, what they build, and the recognised runs
 * of records. */
#ifndef SF_FORMAT_DCP_DCP_SCAN_STATE_H
#define SF_FORMAT_DCP_DCP_SCAN_STATE_H

#include "base/mem.h"
#include "format/dcp/dcp_join.h"
#include "format/dcp/dcp_meta.h"
#include "store/source.h"

/*
 * A value: tag in the low 4 bits, the rest is a small integer or a number in one of the tables
 * below. Numbers are never pointers, so a cycle in the pickle is just a number that occurs twice.
 */
typedef uint64_t dcp_value;
enum dcp_tag {
	V_OPAQUE, /* a float, bytes, the result of a call: nothing we look into */
	V_NONE,
	V_BOOL,
	V_INT,    /* V_INT: 60 bits, signed */
	V_STR,    /* m->str[] */
	V_GLOBAL, /* s->global[] */
	V_TUPLE,  /* s->word[]: count, then values */
	V_SIZE,   /* torch.Size: its tuple */
	V_COORDS, /* a torch.Size that was passed over: m->coord[]; see coords_value */
	V_LIST,
	V_DICT,   /* s->cont[] */
	V_OBJ,    /* s->obj[] */
	V_RUN,    /* m->run[]: one chunk or many */
	V_TENSOR, /* m->tensor[] */
	V_INDEX,
	V_INFO, /* s->rec[]: MetadataIndex, _StorageInfo; on the stack V_RECORDS stands for pairs
	           already joined */
};
/* Pairs (MetadataIndex, _StorageInfo) that were joined as they went by. Payload: nothing. */
#define V_RECORDS ((dcp_value)V_OPAQUE | 1 << 4)
#define V_CALLED               \
	((dcp_value)V_OPAQUE | \
	 3 << 4) /* the result of a call: takes attributes and items, shows none */
#define V_SET ((dcp_value)V_OPAQUE | 4 << 4)
#define V_ABSENT ((dcp_value)V_OPAQUE | 2 << 4) /* no such attribute; never on the stack */

static inline dcp_value dcp_v(enum dcp_tag tag, uint64_t n)
{
	return (dcp_value)tag | n << 4;
}
static inline enum dcp_tag dcp_tag(dcp_value v)
{
	return (enum dcp_tag)(v & 15);
}
static inline uint64_t dcp_num(dcp_value v)
{
	return v >> 4;
}
static inline int64_t dcp_int(dcp_value v)
{
	return (int64_t)v >> 4;
}

/* Words we look for; their string numbers are these, being the first interned. */
enum dcp_word {
	W_OFFSETS,
	W_SIZES,
	W_FQN,
	W_INDEX,
	W_OFFSET,
	W_RELATIVE_PATH,
	W_LENGTH,
	W_TRANSFORMS,
	W_PROPERTIES,
	W_SIZE,
	W_CHUNKS,
	W_STATE_DICT_METADATA,
	W_PLANNER_DATA,
	W_STORAGE_DATA,
	W_STORAGE_META,
	W_VERSION,
	W_MODULES,
	W_DTYPE,
	W_MCORE_DATA,
	W_FLAT_SHAPE,
	W_ALL_LOCAL_PLANS,
	W_NWORDS
};

enum dcp_class {
	C_OTHER,
	C_CHUNK,
	C_INDEX,
	C_INFO,
	C_SIZE,
	C_BYTES,
	C_PROPS,
	C_DTYPE,
	C_DICT,
	C_NCLASSES
};
struct dcp_global {
	uint32_t module, name;
	uint8_t cls;   /* enum dcp_class */
	uint8_t dtype; /* C_DTYPE */
};

struct dcp_cont { /* a list, or a dict as key, value, key, value */
	dcp_value *at;
	uint32_t n, cap;
	bool spent; /* its content went into a record: whoever fetches it again needs the value
	               reader */
};
struct dcp_obj {
	dcp_value made;  /* V_RUN … once BUILD turned it into one; 0 (V_OPAQUE) before */
	dcp_value state; /* what BUILD gave; 0 without */
	uint32_t global;
};
struct dcp_rec { /* V_INDEX: text fqn, a hint, coord0 and ndim of its offset; V_INFO: text path, a
	            offset, b length */
	uint64_t a, b;
	uint32_t text, place_transform;
	uint8_t ndim; /* DCP_NO_OFFSET: a bytes item */
};
#define DCP_NO_OFFSET 255

/* Memo numbers first … up to the next segment. */
struct dcp_seg {
	uint64_t base; /* SEG_DENSE: in memo[]; SEG_CHUNKS: m->coord[] of the first chunk */
	uint32_t first;
	uint8_t kind; /* enum below */
	uint8_t ndim; /* SEG_CHUNKS: per chunk `step` numbers, of which `origin` and `extent` are
	                 torch.Sizes */
	uint8_t step, origin, extent;
};
enum { SEG_DENSE, SEG_CHUNKS, SEG_ITEMS };
#define DCP_SEG_NONE 255 /* no number: that torch.Size was fetched */
struct dcp_memo_str {    /* a string memoised inside a SEG_ITEMS */
	uint32_t number, str;
};
struct dcp_memo_size { /* a torch.Size memoised there, kept only when asked: m->coord[] */
	uint64_t coord0;
	uint32_t number;
	uint8_t ndim;
};

/* How a word or class is fetched. */
struct dcp_ref {
	uint32_t number; /* DCP_NONE unknown */
	bool is_long;    /* by LONG_BINGET where BINGET would do */
};
/* What a run fetched last, and spelt out last, of one kind of string. */
struct dcp_known {
	uint32_t number, str, spelt;
};
enum { DCP_KNOWN_NAME, DCP_KNOWN_FILE, DCP_KNOWN_TRANSFORM, DCP_NKNOWN };
struct dcp_known_size {
	uint32_t number;
	uint8_t ndim;
	uint64_t at[SF_DIMS_MAX];
};

SF_VEC(dcp_values, dcp_value);
SF_VEC(dcp_globals, struct dcp_global);
SF_VEC(dcp_conts, struct dcp_cont);
SF_VEC(dcp_objs, struct dcp_obj);
SF_VEC(dcp_recs, struct dcp_rec);
SF_VEC(dcp_segs, struct dcp_seg);
SF_VEC(dcp_memo_strs, struct dcp_memo_str);
SF_VEC(dcp_memo_sizes, struct dcp_memo_size);

struct dcp_scan {
	struct dcp_meta *m;
	struct sf_source *src;
	const char *name;
	struct sf_error *err;
	/* The window: bytes base … of the file; between p and end not yet used. Up to soft a whole
	 * record is surely in it. */
	uint8_t *buf;
	size_t cap;
	const uint8_t *p, *end, *soft;
	uint64_t base, size;
	const uint8_t *op; /* of the opcode being done, for messages */
	bool runs;         /* recognise runs of records */
	bool keep_sizes;   /* in them, keep every torch.Size of an index */

	struct dcp_values stack, word, memo;
	struct dcp_u32s mark;
	struct dcp_segs seg;
	struct dcp_memo_strs memo_str;
	struct dcp_memo_sizes memo_size;
	uint32_t memo_next;
	struct dcp_globals global;
	struct dcp_conts cont;
	struct dcp_objs obj;
	struct dcp_recs rec;
	struct dcp_u64s coords; /* of V_INDEX */
	uint32_t items_in;      /* the dict that storage entries went into, DCP_NONE */
	uint32_t next_str_cap;
	uint32_t *next_str; /* the string that followed this one as fqn last time: a guess that
	                       saves a hash */
	uint32_t last_fqn;
	struct dcp_known known[DCP_NKNOWN];
	struct dcp_known_size known_size;
	/* how well known things were fetched last */
	struct dcp_ref word_ref[W_NWORDS], class_ref[C_NCLASSES];
};

#define DCP_UNKNOWN 1 /* fine maybe, but not for the scanner */
#define DCP_AGAIN 2   /* something fetched what was passed over: scan again without runs */
#define DCP_ENOUGH 3  /* what follows is not needed: dcp_scan_enough() */

#define DCP_WINDOW (1u << 20)
#define DCP_SOFT 8192 /* bytes one recognised record may take */

/* The lowest stack position that may be popped: above the last mark. */
static inline uint32_t dcp_bottom(const struct dcp_scan *s)
{
	return s->mark.n ? s->mark.at[s->mark.n - 1] : 0;
}
static inline bool dcp_has(const struct dcp_scan *s, uint32_t n)
{
	return s->stack.n - dcp_bottom(s) >= n;
}

/* The value under what BUILD made of an instance. */
static inline dcp_value dcp_made(const struct dcp_scan *s, dcp_value v)
{
	return dcp_tag(v) == V_OBJ && s->obj.at[dcp_num(v)].made ? s->obj.at[dcp_num(v)].made : v;
}

int dcp_scan_bad(struct dcp_scan *s, const char *why); /* -EBADMSG at s->op */
int dcp_scan_short(struct dcp_scan *s);                /* the stack has too few values */
int dcp_scan_no_memory(struct dcp_scan *s);
int dcp_scan_push(struct dcp_scan *s, dcp_value v);
int dcp_scan_push_global(struct dcp_scan *s, uint32_t module, uint32_t name); /* strings */
int dcp_scan_put(struct dcp_scan *s);                                         /* MEMOIZE */
/* GET: pushes the value, or takes a run of records. @is_long: by LONG_BINGET. */
int dcp_scan_fetch(struct dcp_scan *s, uint32_t number, bool is_long);
int dcp_scan_fill(struct dcp_scan *s,
                  size_t need); /* @need bytes at p, or -EBADMSG: the file ends */
dcp_value dcp_scan_get(struct dcp_scan *s, uint32_t number, int *ret);
/* Records like the last ones, from the GET at s->op on: how many were taken (s->p is behind them),
 * 0 none, or negative. */
int dcp_scan_chunk_run(struct dcp_scan *s);
int dcp_scan_item_run(struct dcp_scan *s);
/* A torch.Size fetched at *pp: its dimensions (at most 16), or -1 when it is anything else. */
int dcp_scan_fetch_size(struct dcp_scan *s, const uint8_t **pp, uint64_t *ret);
/* Coordinates from a torch.Size or a tuple of small ints, room for SF_DIMS_MAX: how many, or -1. */
int dcp_scan_coords(const struct dcp_scan *s, dcp_value v, uint64_t *ret);

/* Opcodes from s->p on, up to STOP: 0, DCP_UNKNOWN, DCP_AGAIN or negative. */
int dcp_scan_steps(struct dcp_scan *s);

/* What opcodes mean for containers: 0, DCP_UNKNOWN or negative. Items lie on the stack from @from
 * on, their container at @target. */
int dcp_scan_build(struct dcp_scan *s);
int dcp_scan_set_items(struct dcp_scan *s, uint32_t from, uint32_t target);
int dcp_scan_append_items(struct dcp_scan *s, uint32_t from, uint32_t target, bool adds);
int dcp_scan_root(struct dcp_scan *s); /* STOP: the one value left is the Metadata */
/* What a dict of attributes has under a word; V_ABSENT: nothing, or it is none. */
dcp_value dcp_scan_dict_get(const struct dcp_scan *s, dcp_value dict, uint32_t word);
/* After dcp_scan_root: what only Megatron's Metadata has. */
int dcp_scan_megatron(struct dcp_scan *s);
/* The key that was pushed last stands in the root's state and nothing behind it is looked at: ends
 * the pickle there. Looks whether its file ends as a pickle does. */
bool dcp_scan_is_enough(const struct dcp_scan *s);
int dcp_scan_enough(struct dcp_scan *s);

#endif
