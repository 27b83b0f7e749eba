/* Values -> protocol 2 pickle bytes that torch.load takes, also under weights_only=True where the
 * values allow it. */
#ifndef SF_PARSE_PICKLE_WRITE_H
#define SF_PARSE_PICKLE_WRITE_H

#include "base/buf.h"
#include "parse/dtype.h"
#include "parse/pickle_read.h"

/*
 * Globals and texts that tensors have in common ("storage", torch.FloatStorage, …) have fixed memo
 * numbers, below SF_PW_NWORDS; a set of them, by number.
 */
enum { SF_PW_NWORDS = 6 + 2 * SF_NDTYPES, SF_PW_MEMO_FREE = 128 };
_Static_assert(SF_PW_NWORDS <= SF_PW_MEMO_FREE, "memo numbers of tensors and values overlap");
struct sf_pw_words {
	uint64_t bits[SF_PW_MEMO_FREE / 64];
};
static inline bool sf_pw_words_have(const struct sf_pw_words *s, unsigned word)
{
	return s->bits[word / 64] >> word % 64 & 1;
}
static inline void sf_pw_words_add(struct sf_pw_words *s, unsigned word)
{
	s->bits[word / 64] |= UINT64_C(1) << word % 64;
}
/* The first of them from @word on; SF_PW_MEMO_FREE: none. */
static inline unsigned sf_pw_words_next(const struct sf_pw_words *s, unsigned word)
{
	for (; word < SF_PW_MEMO_FREE; word = (word / 64 + 1) * 64) {
		uint64_t left = s->bits[word / 64] >> word % 64;
		if (left)
			return word + (unsigned)__builtin_ctzll(left);
	}
	return SF_PW_MEMO_FREE;
}

/*
 * A pickle being written. { .out = &buf } writes all but values (sf_pw_value), for which
 * sf_pickle_writer_init() makes room. Errors stick in @out (sf_buf_check).
 *
 * Memo numbers are ours, so several parsed values (each from its own pickle) can be written one
 * after another into one stream: what is shared inside one stays shared, recursive lists and dicts
 * keep their PUT right behind EMPTY_LIST / EMPTY_DICT. Strings of globals and storage classes are
 * written once and then fetched (they are interned per stream). Output only uses the opcodes
 * torch's weights_only unpickler knows (torch/_weights_only_unpickler.py, 2.6 to 2.14): no protocol
 * 4 opcode, bytes as _codecs.encode(latin-1 text).
 */
struct sf_pickle_writer {
	struct sf_buf *out;
	/* The next value's; from SF_PW_MEMO_FREE on. A stream without tensors of sf_pw_tensor may
	 * begin lower. */
	uint32_t next_memo;
	/* What tensors before this one have put. A stream that is made in pieces, each by a writer
	 * of its own, says here what the pieces before have. */
	struct sf_pw_words words;
	struct sf_arena *arena; /* interned globals live here */
	void *interned;         /* private */
	/*
	 * Gives the storage a persistent id names its number in this stream: @key is as stored in
	 * the value's own archive. Called once per PERSID written. Returns 0 and *ret_number, or a
	 * negative code with @err.
	 */
	int (*storage)(void *arg, const char *key, size_t key_len, uint64_t *ret_number,
	               struct sf_error *err);
	void *storage_arg;
};

int sf_pickle_writer_init(struct sf_pickle_writer *w, struct sf_buf *out, struct sf_arena *arena);
void sf_pickle_writer_release(struct sf_pickle_writer *w);

/* PROTO 2 and STOP are the caller's: sf_pw_proto() first, sf_pw_stop() last. */
void sf_pw_proto(struct sf_pickle_writer *w);
void sf_pw_stop(struct sf_pickle_writer *w);
/*
 * One whole value from a parsed tree. -E2BIG past depth 1,000; -EBADMSG what protocol 2 cannot say.
 * Uses the values' .mark, which are 0 again when it returns: the tree can be written once more, but
 * shares nothing with the first time. Opcodes unknown to weights_only appear only where there is no
 * other way: LONG4 (ints over 255 bytes), POP (a tuple or set that holds itself), EXT.
 */
int sf_pw_value(struct sf_pickle_writer *w, struct sf_pv *v, struct sf_error *err);
/* A str of a name's bytes. One that is no UTF-8 becomes U+DC80 … U+DCFF (Python's surrogateescape);
 * other lone surrogates stay as they are. */
void sf_pw_name(struct sf_pickle_writer *w, const char *s, size_t len);
void sf_pw_int(struct sf_pickle_writer *w, int64_t v);
void sf_pw_uint(struct sf_pickle_writer *w, uint64_t v);
/* containers being filled: sf_pw_op(w, '}') etc. */
void sf_pw_op(struct sf_pickle_writer *w, char op);

/* A contiguous CPU tensor, alone in its storage. */
struct sf_pw_tensor {
	enum sf_dtype dtype;
	unsigned ndim; /* more than SF_DIMS_MAX is -E2BIG */
	const uint64_t *shape;
	uint64_t bytes;   /* of the storage: all of its elements */
	uint64_t storage; /* its number: the record data/<number> of the archive */
};
void sf_pw_tensor(struct sf_pickle_writer *w, const struct sf_pw_tensor *t);
/* The words that a tensor of @dtype uses: those it puts, or fetches where they are in the stream. */
void sf_pw_tensor_words(enum sf_dtype dtype, struct sf_pw_words *ret);
/* What to pickle a tensor of @dtype as: torch builds no quantized one from a plain storage, it is
 * shown as the integers it is made of. */
enum sf_dtype sf_pw_tensor_dtype(enum sf_dtype dtype);

/*
 * sf_pv_weights_only - would torch.load(weights_only=True) refuse this value?
 * NULL when it takes it, else the first thing it refuses ("collections.deque"), in @arena.
 */
const char *sf_pv_weights_only(const struct sf_pv *v, struct sf_arena *arena);

#endif
