#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_put.h"
#include "parse/torch_item.h"

/*
 * The opcodes are those of torch.save's own protocol 2 pickles, all known to torch's weights_only
 * unpickler; tensors are _rebuild_tensor_v2 (typed storage) or _rebuild_tensor_v3 (untyped and a
 * dtype): pytorch/pytorch torch/_tensor.py, 2.6 to 2.14.
 */

/* Memo numbers of what tensors have in common. */
enum {
	WORD_V2,
	WORD_V3,
	WORD_ORDERED,
	WORD_STORAGE, /* "storage" */
	WORD_CPU,     /* "cpu" */
	WORD_UNTYPED,
	WORD_CLASS,                           /* + dtype: its storage class */
	WORD_DTYPE = WORD_CLASS + SF_NDTYPES, /* + dtype: torch.<dtype> */
};
_Static_assert(WORD_DTYPE + SF_NDTYPES == SF_PW_NWORDS, "the header's count of words");

enum sf_dtype sf_pw_tensor_dtype(enum sf_dtype dtype)
{
	switch (dtype) {
	case SF_QINT8:
		return SF_INT8;
	case SF_QUINT8:
	case SF_QUINT4X2:
	case SF_QUINT2X4:
		return SF_UINT8;
	case SF_QINT32:
		return SF_INT32;
	default:
		return dtype;
	}
}

void sf_pw_tensor_words(enum sf_dtype dtype, struct sf_pw_words *ret)
{
	bool typed = sf_dtype_info(dtype)->storage != NULL;

	*ret = (struct sf_pw_words){ { 0 } };
	sf_pw_words_add(ret, WORD_ORDERED);
	sf_pw_words_add(ret, WORD_STORAGE);
	sf_pw_words_add(ret, WORD_CPU);
	sf_pw_words_add(ret, typed ? WORD_V2 : WORD_V3);
	sf_pw_words_add(ret, typed ? WORD_CLASS + dtype : WORD_UNTYPED);
	if (!typed)
		sf_pw_words_add(ret, WORD_DTYPE + dtype);
}

/* Fetches what the stream has; else the caller writes it and put_word() keeps it. */
static bool fetched(struct sf_pickle_writer *w, unsigned word)
{
	if (!sf_pw_words_have(&w->words, word))
		return false;
	sf_pw_get(w, word);
	return true;
}

static void put_word(struct sf_pickle_writer *w, unsigned word)
{
	sf_pw_put(w, word);
	sf_pw_words_add(&w->words, word);
}

static void global(struct sf_pickle_writer *w, unsigned word, const char *module, const char *name)
{
	if (fetched(w, word))
		return;
	sf_pw_op(w, 'c');
	sf_buf_str(w->out, module);
	sf_pw_op(w, '\n');
	sf_buf_str(w->out, name);
	sf_pw_op(w, '\n');
	put_word(w, word);
}

static void text(struct sf_pickle_writer *w, unsigned word, const char *s)
{
	if (fetched(w, word))
		return;
	sf_pw_text(w, s, strlen(s));
	put_word(w, word);
}

static void numbers(struct sf_pickle_writer *w, const uint64_t *v, unsigned n)
{
	static const char op[] = { ')', '\x85', '\x86', '\x87' };

	if (n > 3)
		sf_pw_op(w, '(');
	for (unsigned i = 0; i < n; i++)
		sf_pw_uint(w, v[i]);
	sf_pw_op(w, n > 3 ? 't' : op[n]);
}

void sf_pw_tensor(struct sf_pickle_writer *w, const struct sf_pw_tensor *t)
{
	enum sf_dtype dtype = t->dtype;
	const struct sf_dtype_info *info = sf_dtype_info(dtype);
	uint64_t stride[SF_DIMS_MAX], step = 1;
	char key[24];

	if (t->ndim > SF_DIMS_MAX) {
		sf_buf_fail(w->out, -E2BIG);
		return;
	}
	for (unsigned d = t->ndim; d-- > 0;) {
		stride[d] = step;
		/* as torch computes it for contiguous tensors; an empty one may have any other
		 * extents */
		if (__builtin_mul_overflow(step, SF_MAX(t->shape[d], 1), &step))
			step = INT64_MAX;
	}
	if (info->storage)
		global(w, WORD_V2, "torch._utils", "_rebuild_tensor_v2");
	else
		global(w, WORD_V3, "torch._utils", "_rebuild_tensor_v3");
	sf_buf_add(w->out, "((", 2);
	text(w, WORD_STORAGE, "storage");
	if (info->storage)
		global(w, WORD_CLASS + dtype, "torch", info->storage);
	else
		global(w, WORD_UNTYPED, "torch.storage", "UntypedStorage");
	sf_pw_text(w, key, (size_t)snprintf(key, sizeof(key), "%" PRIu64, t->storage));
	text(w, WORD_CPU, "cpu");
	sf_pw_uint(w, info->storage ? t->bytes / SF_MAX(info->bytes, 1) : t->bytes);
	sf_buf_add(w->out, "tQ", 2);
	sf_pw_uint(w, 0); /* where in the storage */
	numbers(w, t->shape, t->ndim);
	numbers(w, stride, t->ndim);
	sf_pw_op(w, (char)0x89); /* requires_grad */
	global(w, WORD_ORDERED, "collections", "OrderedDict");
	sf_buf_add(w->out, ")R", 2);
	if (!info->storage)
		global(w, WORD_DTYPE + dtype, "torch", info->torch);
	sf_buf_add(w->out, "tR", 2);
}
