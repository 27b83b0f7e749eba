/* Writes `.metadata` in any spelling, and what it means. */
#ifndef SF_TESTS_FORMAT_DCP_PICKLER_H
#define SF_TESTS_FORMAT_DCP_PICKLER_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

/*
 * A pickler of metadata with a will of its own: it spells the same checkpoint in every way pickle
 * may, and writes down what it means. Both readers must say just that.
 */
enum memo_style { MEMO_NONE, MEMO_IMPLICIT, MEMO_PUT };
struct spelling {
	enum memo_style memo;
	unsigned frame_every;  /* bytes between FRAMEs, 0 none */
	bool share_sizes;      /* an index fetches its chunk's torch.Size */
	bool share_names;      /* an index fetches its name from state_dict_metadata */
	bool refetch_names;    /* an index fetches its name from an earlier index of the tensor:
	                          several shards a rank */
	bool share_extents;    /* a chunk fetches the torch.Size of the one before */
	bool share_zeros;      /* an index at the origin fetches that of another tensor's */
	bool fresh_files;      /* every item spells its file's name */
	bool fresh_transforms; /* and its transform's */
	bool no_index;         /* indices without that attribute */
	bool long_gets;        /* LONG_BINGET where BINGET would do */
	bool hints, wrong_hints;
	bool transforms;
	bool items_first; /* storage_data before state_dict_metadata */
	bool odd;         /* attributes and classes of other libraries */
	bool by_rank;     /* storage_data rank by rank, else tensor by tensor */
	bool wide;        /* coordinates past 2^32 */
	bool padded;      /* numbers past 2^31 with a zero byte that pickle leaves out */
	bool decoy;       /* before storage_data a dict of such pairs that is another attribute's */
	size_t bulk;      /* bytes of a path element, and of an attribute that nobody reads */
	bool shard_package;
	uint32_t tensors, chunks, dims;
};
enum { MAX_TENSORS = 40, MAX_CHUNKS = 1200, MAX_DIMS = 6 };

struct writer {
	struct sf_buf out;
	const struct spelling *how;
	uint64_t seed;
	uint32_t memo;
	size_t framed;
	struct {
		const char *text;
		uint32_t memo;
	} word[64];
	size_t nwords;
	uint32_t *size_memo;              /* of each chunk's offsets, when shared */
	uint32_t zero_memo[MAX_DIMS + 1]; /* of an index's offset at the origin, + 1 */
	uint64_t shift;                   /* of all items' offsets */
	uint32_t name_memo[MAX_TENSORS], item_name[MAX_TENSORS]; /* item_name: + 1, 0 none */
};

static void op(struct writer *w, uint8_t o)
{
	if (w->how->frame_every && w->out.len - w->framed > w->how->frame_every) {
		const uint8_t frame[9] = { 0x95,
			                   1 }; /* its length is a promise that nobody needs */
		sf_buf_add(&w->out, frame, 9);
		w->framed = w->out.len;
	}
	sf_buf_byte(&w->out, o);
}

static uint32_t memoize(struct writer *w)
{
	uint8_t b[4];

	if (w->how->memo == MEMO_NONE)
		return 0;
	if (w->how->memo == MEMO_IMPLICIT) {
		op(w, 0x94);
	} else if (w->memo < 256) {
		op(w, 'q');
		sf_buf_byte(&w->out, (uint8_t)w->memo);
	} else {
		op(w, 'r');
		sf_put_le32(b, w->memo);
		sf_buf_add(&w->out, b, 4);
	}
	return w->memo++;
}

static void fetch(struct writer *w, uint32_t number)
{
	uint8_t b[4];

	if (number < 256 && !w->how->long_gets) {
		op(w, 'h');
		sf_buf_byte(&w->out, (uint8_t)number);
	} else {
		op(w, 'j');
		sf_put_le32(b, number);
		sf_buf_add(&w->out, b, 4);
	}
}

static uint32_t text(struct writer *w, const char *s)
{
	size_t n = strlen(s);
	uint8_t b[4];

	if (w->how->memo == MEMO_IMPLICIT && n < 256) {
		op(w, 0x8c);
		sf_buf_byte(&w->out, (uint8_t)n);
	} else {
		op(w, 'X');
		sf_put_le32(b, (uint32_t)n);
		sf_buf_add(&w->out, b, 4);
	}
	sf_buf_add(&w->out, s, n);
	return memoize(w);
}

/* A word or "module\nname\n": fetched when it was written before. */
static void known(struct writer *w, const char *s)
{
	const char *nl = strchr(s, '\n');
	char module[128];
	uint32_t number;

	for (size_t i = 0; w->how->memo != MEMO_NONE && i < w->nwords; i++) {
		if (strcmp(w->word[i].text, s) == 0) {
			fetch(w, w->word[i].memo);
			return;
		}
	}
	if (!nl) {
		number = text(w, s);
	} else if (w->how->memo == MEMO_IMPLICIT) {
		snprintf(module, sizeof(module), "%.*s", (int)(nl - s), s);
		text(w, module);
		snprintf(module, sizeof(module), "%.*s", (int)strlen(nl + 1) - 1, nl + 1);
		text(w, module);
		op(w, 0x93);
		number = memoize(w);
	} else {
		op(w, 'c');
		sf_buf_str(&w->out, s);
		number = memoize(w);
	}
	if (w->nwords < SF_ARRAY_LEN(w->word)) {
		w->word[w->nwords].text = s;
		w->word[w->nwords++].memo = number;
	}
}

static void number(struct writer *w, uint64_t n)
{
	uint8_t b[9];

	if (n < 256) {
		op(w, 'K');
		sf_buf_byte(&w->out, (uint8_t)n);
	} else if (n < 65536) {
		op(w, 'M');
		sf_put_le16(b, (uint16_t)n);
		sf_buf_add(&w->out, b, 2);
	} else if (n < UINT32_MAX / 2) {
		op(w, 'J');
		sf_put_le32(b, (uint32_t)n);
		sf_buf_add(&w->out, b, 4);
	} else { /* as few bytes as keep its sign, as pickle does */
		unsigned len = 8;
		sf_put_le64(b, n);
		b[8] = 0;
		if (!w->how->padded)
			while (!b[len] && !(b[len - 1] & 0x80))
				len--;
		op(w, 0x8a);
		sf_buf_byte(&w->out, (uint8_t)(len + 1));
		sf_buf_add(&w->out, b, len + 1);
	}
}

static uint32_t size(struct writer *w, const uint64_t *n, unsigned ndim)
{
	known(w, "torch\nSize\n");
	if (ndim > 3)
		op(w, '(');
	else if (ndim == 0)
		op(w, ')');
	for (unsigned k = 0; k < ndim; k++)
		number(w, n[k]);
	if (ndim) {
		op(w, ndim > 3 ? 't' : (uint8_t)(0x84 + ndim));
		memoize(w);
	}
	op(w, 0x85);
	memoize(w);
	op(w, 'R');
	return memoize(w);
}

static const char *class_of(struct writer *w, const char *name)
{
	static const char *const both[][2] = {
		{ "torch.distributed.checkpoint.metadata\nMetadata\n",
		  "torch.distributed._shard.checkpoint.metadata\nMetadata\n" },
		{ "torch.distributed.checkpoint.metadata\nTensorStorageMetadata\n",
		  "torch.distributed._shard.checkpoint.metadata\nTensorStorageMetadata\n" },
		{ "torch.distributed.checkpoint.metadata\nTensorProperties\n",
		  "torch.distributed._shard.sharded_tensor.metadata\nTensorProperties\n" },
		{ "torch.distributed.checkpoint.metadata\nChunkStorageMetadata\n",
		  "torch.distributed._shard.checkpoint.metadata\nChunkStorageMetadata\n" },
		{ "torch.distributed.checkpoint.metadata\nBytesStorageMetadata\n",
		  "torch.distributed._shard.checkpoint.metadata\nBytesStorageMetadata\n" },
		{ "torch.distributed.checkpoint.metadata\nMetadataIndex\n",
		  "torch.distributed._shard.checkpoint.metadata\nMetadataIndex\n" },
		{ "torch.distributed.checkpoint.filesystem\n_StorageInfo\n",
		  "olmo_core.distributed.checkpoint.filesystem\n_StorageInfo\n" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(both); i++)
		if (strstr(both[i][0], name))
			return both[i][w->how->shard_package];
	abort();
}

static void begin(struct writer *w, const char *class)
{
	known(w, class);
	op(w, ')');
	op(w, 0x81);
	memoize(w);
	op(w, '}');
	memoize(w);
	op(w, '(');
}

static void end(struct writer *w)
{
	op(w, 'u');
	op(w, 'b');
}

/* The checkpoint that is being described. */
struct truth {
	struct {
		char name[64];
		unsigned ndim;
		uint64_t shape[MAX_DIMS];
		uint32_t chunks;
		bool bytes;
	} t[MAX_TENSORS];
};

/* Chunk @c of tensor @t: rows of the first dimension; a 0-dim tensor has one chunk. */
static void box(const struct spelling *how, const struct truth *x, uint32_t t, uint32_t c,
                uint64_t *origin, uint64_t *extent)
{
	for (unsigned k = 0; k < x->t[t].ndim; k++) {
		origin[k] = 0;
		extent[k] = x->t[t].shape[k];
	}
	if (x->t[t].ndim) {
		uint64_t step = x->t[t].shape[0] / x->t[t].chunks;
		origin[0] = step * c;
		extent[0] = c + 1 == x->t[t].chunks ? x->t[t].shape[0] - origin[0] : step;
	}
	(void)how;
}

static uint64_t item_off(uint32_t t, uint32_t c)
{
	return (uint64_t)t * 100003 + (uint64_t)c * (c % 7 ? 1 : 3000000007);
}

static void state_dict_metadata(struct writer *w, const struct truth *x)
{
	uint64_t o[MAX_DIMS], e[MAX_DIMS];
	uint32_t n = 0, extent = 0;

	known(w, "state_dict_metadata");
	op(w, '}');
	memoize(w);
	op(w, '(');
	for (uint32_t t = 0; t < w->how->tensors; t++) {
		w->name_memo[t] = text(w, x->t[t].name);
		if (x->t[t].bytes) {
			known(w, class_of(w, "BytesStorage"));
			op(w, ')');
			op(w, 0x81);
			memoize(w);
			continue;
		}
		begin(w, class_of(w, "TensorStorage"));
		known(w, "properties");
		known(w, class_of(w, "TensorProp"));
		op(w, ')');
		op(w, 0x81);
		memoize(w);
		op(w, '(');
		known(w, "torch\nbfloat16\n");
		known(w, "torch\nstrided\n");
		op(w, 0x89);
		op(w, 'N');
		op(w, 0x89);
		if (w->how->odd)
			op(w, 'N');
		op(w, 't');
		memoize(w);
		op(w, 'b');
		known(w, "size");
		size(w, x->t[t].shape, x->t[t].ndim);
		known(w, "chunks");
		op(w, ']');
		memoize(w);
		for (uint32_t c = 0; c < x->t[t].chunks; c++, n++) {
			if (c % 1000 == 0)
				op(w, '(');
			box(w->how, x, t, c, o, e);
			begin(w, class_of(w, "ChunkStorage"));
			known(w, "offsets");
			w->size_memo[t * MAX_CHUNKS + c] = size(w, o, x->t[t].ndim);
			known(w, "sizes");
			if (w->how->share_extents && w->how->memo != MEMO_NONE && c &&
			    c + 1 < x->t[t].chunks)
				fetch(w, extent);
			else
				extent = size(w, e, x->t[t].ndim);
			if (w->how->odd && c % 50 == 3) {
				text(w, "colour");
				number(w, c);
			}
			end(w);
			if (c % 1000 == 999 || c + 1 == x->t[t].chunks)
				op(w, 'e');
		}
		end(w);
	}
	op(w, 'u');
}

static void storage_item(struct writer *w, const struct truth *x, uint32_t t, uint32_t c)
{
	uint64_t o[MAX_DIMS], e[MAX_DIMS];
	char file[64];

	begin(w, class_of(w, "MetadataIndex"));
	known(w, "fqn");
	if (w->how->share_names && w->how->memo != MEMO_NONE && !w->how->items_first)
		fetch(w, w->name_memo[t]);
	else if (w->how->refetch_names && w->how->memo != MEMO_NONE && w->item_name[t] && c % 3)
		fetch(w, w->item_name[t] - 1);
	else
		w->item_name[t] = text(w, x->t[t].name) + 1;
	if (!w->how->no_index) {
		known(w, "index");
		if (!w->how->hints || x->t[t].bytes)
			op(w, 'N');
		else
			number(w, w->how->wrong_hints ? c * 7919 % 1300 : c);
	} else if (x->t[t].bytes) { /* some attribute it must have */
		known(w, "offset");
		op(w, 'N');
	}
	if (!x->t[t].bytes) {
		known(w, "offset");
		box(w->how, x, t, c, o, e);
		if (w->how->share_sizes && w->how->memo != MEMO_NONE && !w->how->items_first)
			fetch(w, w->size_memo[t * MAX_CHUNKS + c]);
		else if (w->how->share_zeros && w->how->memo != MEMO_NONE && c == 0 &&
		         w->zero_memo[x->t[t].ndim])
			fetch(w, w->zero_memo[x->t[t].ndim] - 1);
		else if (c == 0)
			w->zero_memo[x->t[t].ndim] = size(w, o, x->t[t].ndim) + 1;
		else
			size(w, o, x->t[t].ndim);
	}
	end(w);
	begin(w, class_of(w, "_StorageInfo"));
	known(w, "relative_path");
	if (w->how->by_rank && c < 20 && !w->how->fresh_files) {
		static const char *const names[] = { "__0_0.distcp", "__1_0.distcp", "__2_0.distcp",
			                             "__3_0.distcp", "__4_0.distcp", "__5_0.distcp",
			                             "__6_0.distcp", "__7_0.distcp", "__8_0.distcp",
			                             "__9_0.distcp" };
		known(w, names[c % 10]);
	} else {
		snprintf(file, sizeof(file), "__%u_0.distcp", c % 10);
		text(w, file);
	}
	known(w, "offset");
	number(w, item_off(t, c) + w->shift);
	known(w, "length");
	number(w, 1000 + t);
	if (w->how->transforms) {
		known(w, "transform_descriptors");
		op(w, ']');
		memoize(w);
		if (w->how->fresh_transforms)
			text(w, t % 5 ? "stream.zstd/1" : "stream.other/1");
		else
			known(w, t % 5 ? "stream.zstd/1" : "stream.other/1");
		op(w, 'a');
	}
	end(w);
}

static void storage_data(struct writer *w, const struct truth *x, const char *attribute)
{
	uint32_t n = 0;

	known(w, attribute);
	op(w, '}');
	memoize(w);
	for (uint32_t a = 0; a < (w->how->by_rank ? (uint32_t)MAX_CHUNKS : w->how->tensors); a++) {
		for (uint32_t b = 0; b < (w->how->by_rank ? w->how->tensors : (uint32_t)MAX_CHUNKS);
		     b++) {
			uint32_t t = w->how->by_rank ? b : a, c = w->how->by_rank ? a : b;
			if (c >= x->t[t].chunks)
				continue;
			if (n % 1000 == 0)
				op(w, '(');
			storage_item(w, x, t, c);
			if (n++ % 1000 == 999)
				op(w, 'u');
		}
	}
	if (n % 1000 == 0)
		op(w, '(');
	op(w, 'u');
}

/* A text whose every place is told by what is there. One at a time. */
static const char *bulk(const struct spelling *how)
{
	static char at[4 << 20];
	size_t n = 0;

	while (n < how->bulk)
		n += (size_t)snprintf(at + n, sizeof(at) - n, "%zx.", n);
	at[how->bulk] = 0;
	return at;
}

static inline void write_pickle(struct writer *w, const struct truth *x)
{
	op(w, 0x80);
	sf_buf_byte(&w->out, w->how->memo == MEMO_IMPLICIT ? 4 : 2);
	begin(w, class_of(w, "Metadata\n"));
	if (w->how->decoy) {
		w->shift = 5;
		storage_data(w, x, "items_of_old");
		w->shift = 0;
	}
	if (w->how->items_first)
		storage_data(w, x, "storage_data");
	state_dict_metadata(w, x);
	known(w, "planner_data");
	op(w, '}');
	memoize(w);
	op(w, '(');
	for (uint32_t t = 0; t < w->how->tensors; t++) {
		text(w, x->t[t].name);
		text(w, t || !w->how->bulk ? "model" : bulk(w->how));
		number(w, t);
		op(w, 0x86);
		memoize(w);
	}
	op(w, 'u');
	if (w->how->bulk) {
		uint8_t len[4];
		text(w, "nobody_reads");
		op(w, 'B');
		sf_put_le32(len, (uint32_t)w->how->bulk);
		sf_buf_add(&w->out, len, 4);
		sf_buf_add(&w->out, bulk(w->how), w->how->bulk);
		memoize(w);
	}
	if (!w->how->items_first)
		storage_data(w, x, "storage_data");
	if (w->how->odd) {
		text(w, "mcore_data");
		begin(w, "megatron.core\nThing\n");
		text(w, "nd");
		op(w, 'G');
		sf_buf_add(&w->out, "\0\0\0\0\0\0\0\0", 8);
		text(w, "plans");
		op(w, ']');
		memoize(w);
		op(w, '(');
		begin(w, class_of(w, "ChunkStorage"));
		known(w, "offsets");
		size(w, x->t[0].shape, x->t[0].ndim);
		known(w, "sizes");
		size(w, x->t[0].shape, x->t[0].ndim);
		end(w);
		op(w, 'N');
		op(w, 'e');
		end(w);
	}
	end(w);
	op(w, '.');
	ck_assert_int_eq(sf_buf_check(&w->out), 0);
}

static inline void write_truth(const struct spelling *how, const struct truth *x,
                               struct sf_buf *out)
{
	uint64_t o[MAX_DIMS], e[MAX_DIMS];

	for (uint32_t t = 0; t < how->tensors; t++) {
		sf_buf_str(out, x->t[t].name);
		if (x->t[t].bytes) {
			sf_buf_str(out, " bytes\n");
			continue;
		}
		sf_buf_str(out, " bfloat16 [");
		for (unsigned k = 0; k < x->t[t].ndim; k++)
			sf_buf_printf(out, " %" PRIu64, x->t[t].shape[k]);
		sf_buf_str(out, " ]\n");
		for (uint32_t c = 0; c < x->t[t].chunks; c++) {
			box(how, x, t, c, o, e);
			for (unsigned k = 0; k < x->t[t].ndim; k++)
				sf_buf_printf(out, " %" PRIu64, o[k]);
			for (unsigned k = 0; k < x->t[t].ndim; k++)
				sf_buf_printf(out, " %" PRIu64, e[k]);
			sf_buf_printf(out, " __%u_0.distcp@%" PRIu64 "+%u%s\n", c % 10,
			              item_off(t, c), 1000 + t,
			              !how->transforms ? ""
			              : t % 5          ? " zstd"
			                               : " (stream.other/1)");
		}
	}
	for (uint32_t t = 0; t < how->tensors; t++)
		if (x->t[t].bytes)
			sf_buf_printf(out, "%s __0_0.distcp@%" PRIu64 "+%u%s\n", x->t[t].name,
			              item_off(t, 0), 1000 + t,
			              !how->transforms ? ""
			              : t % 5          ? " zstd"
			                               : " (stream.other/1)");
	for (uint32_t t = 0; t < how->tensors; t++)
		sf_buf_printf(out, "%s = %s #%u\n", x->t[t].name,
		              t || !how->bulk ? "model" : bulk(how), t);
	sf_buf_printf(out,
	              "stray 0 no_paths 0\nstorage_meta 0 modules 0 props %d shard %d olmo %d "
	              "version -\n",
	              !how->shard_package, how->shard_package, how->shard_package);
}

static inline void make_truth(struct spelling *how, struct truth *x, uint64_t *seed)
{
	memset(x, 0, sizeof(*x));
	for (uint32_t t = 0; t < how->tensors; t++) {
		snprintf(x->t[t].name, sizeof(x->t[t].name), "layers.%u.feed_forward.%s%u", t / 3,
		         t % 4 ? "w" : "weight_", t);
		x->t[t].bytes = t && sf_test_below(seed, 10) == 0;
		x->t[t].ndim = x->t[t].bytes ? 0 : (unsigned)sf_test_below(seed, how->dims + 1);
		x->t[t].chunks = x->t[t].ndim ? 1 + (uint32_t)sf_test_below(seed, how->chunks) : 1;
		for (unsigned k = 0; k < x->t[t].ndim; k++)
			x->t[t].shape[k] = sf_test_below(seed, 3)
			                           ? 1 + sf_test_below(seed, 300)
			                           : 70000 + sf_test_below(seed, 100000);
		if (x->t[t].ndim)
			x->t[t].shape[0] =
				x->t[t].chunks *
					(1 + sf_test_below(seed,
			                                   how->wide ? UINT64_C(1) << 33 : 1000)) +
				sf_test_below(seed, 3);
	}
}

#endif
