/* Values -> protocol 2 pickle bytes that torch.load takes, also under weights_only=True where the
 * values allow it. */
#ifndef SF_PARSE_PICKLE_WRITE_H
#define SF_PARSE_PICKLE_WRITE_H

#include "base/buf.h"
#include "parse/dtype.h"
#include "parse/pickle_read.h"

/*
 * A pickle being written. Memo numbers are ours, so several parsed values (each from its own
 * pickle) can be written one after another into one stream: what is shared inside one stays shared,
 * recursive lists and dicts keep their PUT right behind EMPTY_LIST / EMPTY_DICT. Strings of globals
 * and storage classes are written once and then fetched (they are interned per stream). Output only
 * uses the opcodes torch's weights_only unpickler knows (torch/_weights_only_unpickler.py, 2.6
 * to 2.14): no protocol 4 opcode, bytes as _codecs.encode(latin-1 text).
 */
struct sf_pickle_writer {
	struct sf_buf *out;
	uint32_t next_memo;
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
void sf_pw_str(struct sf_pickle_writer *w, const char *s, size_t len);
void sf_pw_int(struct sf_pickle_writer *w, int64_t v);
void sf_pw_global(struct sf_pickle_writer *w, const char *module, const char *name);
/* containers being filled: sf_pw_op(w, '}') etc. */
void sf_pw_op(struct sf_pickle_writer *w, char op);
/* A contiguous CPU tensor of its own storage "data/<number>". */
void sf_pw_tensor(struct sf_pickle_writer *w, enum sf_dtype dtype, const uint64_t *shape,
                  unsigned ndim, uint64_t number);

/*
 * sf_pv_weights_only - would torch.load(weights_only=True) refuse this value?
 * NULL when it takes it, else the first thing it refuses ("collections.deque"), in @arena.
 */
const char *sf_pv_weights_only(const struct sf_pv *v, struct sf_arena *arena);

#endif
