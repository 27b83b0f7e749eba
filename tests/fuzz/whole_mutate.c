#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/fuzz/fz_files.h"
#include "tests/fuzz/fz_mutate.h"

#define FILE_MAX (1 << 20) /* bytes a file may grow to */
#define GROW 4096          /* by one change */

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static const char *some_word(uint64_t *rnd, char buf[64])
{
	static const char *const words[] = {
		"objects=plain",
		"objects=none",
		"objects=keep",
		"dtype=bf16",
		"dtype=fp16",
		"dtype=fp32",
		"npy-bf16=u2",
		"npy-bf16=f4",
		"st-dtypes=all",
		"model-only",
		"role=optim",
		"role=other",
		"hf-strip=no",
		"max-shard-size=1",
		"max-shard-size=100",
		"hf-group=optim",
		"hf-group=model",
		"hf-name=x",
		"views=pt:npy",
		"views=state",
		"views=hf:safetensors",
		"views=checkpoint:groups",
		"complete",
		"memory=1",
		"memory=1000",
		"memory=100K",
		"key=model",
		"key=*weight",
		"key=*.0.*",
		"ignore=optim",
		"ignore=*bias",
		"map=model=m",
		"map=*.weight=w.*",
		"map=model.*=x.y.*",
		"hf-map=*.w=*.weight",
		"source-format=dcp",
		"source-format=hf",
		"x-busy",
	};
	static const char *const numbers[] = { "x-malloc", "x-malloc", "x-malloc-on",   "x-io",
		                               "x-io",     "memory",   "max-shard-size" };
	size_t i = fz_below(rnd, SF_ARRAY_LEN(words) + SF_ARRAY_LEN(numbers));

	if (i < SF_ARRAY_LEN(words))
		return words[i];
	snprintf(buf, 64, "%s=%zu", numbers[i - SF_ARRAY_LEN(words)],
	         fz_below(rnd, (size_t)16 << fz_below(rnd, 9)));
	return buf;
}

/* Adds a word to the options, or makes them anew. */
static size_t mutate_options(uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	char buf[64];
	const char *word = some_word(rnd, buf);
	size_t n = strlen(word);

	if (fz_below(rnd, 8) == 0)
		return LLVMFuzzerMutate(at, len, max);
	if (len > 60 || fz_below(rnd, 3) == 0)
		len = 0;
	if (len + n + 1 > max)
		return len;
	if (len)
		at[len++] = '\n';
	memcpy(at + len, word, n);
	return len + n;
}

static size_t mutate_content(const char *name, uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	if (!name[0])
		return mutate_options(at, len, max, rnd);
	if (fz_below(rnd, 16) == 0)
		return LLVMFuzzerMutate(at, len, max);
	if (ends(name, "metadata"))
		return fz_mutate_pickle(at, len, max, rnd);
	if (ends(name, ".safetensors"))
		return fz_mutate_safetensors(at, len, max, rnd);
	if (ends(name, ".json"))
		return fz_mutate_json(at, len, max, rnd);
	fz_mutate_items(at, len, rnd);
	return len;
}

/* Which files there are, and how they are called. */
static void mutate_list(struct fz_files *f, uint64_t *rnd)
{
	static const char *const names[] = {
		".metadata",
		"__0.metadata",
		"__1.metadata",
		"__0_0.distcp",
		"__1_0.distcp",
		"model/.metadata",
		"optim/.metadata",
		"sub/__0_0.distcp",
		"model.safetensors",
		"model-00001-of-00002.safetensors",
		"model.safetensors.index.json",
		"shard-00001-model-00001-of-00002.safetensors",
		"sharded/x.safetensors",
		"config.json",
		"metadata.json",
		"",
	};
	size_t i = fz_below(rnd, f->n), k = fz_below(rnd, f->n);
	const char *name = names[fz_below(rnd, SF_ARRAY_LEN(names))];
	struct fz_file swap;

	if (!f->n)
		return;
	switch (fz_below(rnd, 6)) {
	case 0:
		f->at[i] = f->at[--f->n];
		break;
	case 1: /* a copy of it under another name */
		if (f->n == FZ_FILES)
			break;
		f->at[f->n] = f->at[i];
		snprintf(f->at[f->n++].name, sizeof(f->at[0].name), "%s", name);
		break;
	case 2:
		snprintf(f->at[i].name, sizeof(f->at[0].name), "%s", name);
		break;
	case 3:
		f->at[i].len = fz_below(rnd, f->at[i].len + 1);
		break;
	case 4:
		swap = f->at[i];
		f->at[i].at = f->at[k].at, f->at[i].len = f->at[k].len;
		f->at[k].at = swap.at, f->at[k].len = swap.len;
		break;
	default: /* the options of nothing */
		if (f->n < FZ_FILES && f->at[0].name[0]) {
			f->at[f->n] = f->at[0];
			f->at[0] = (struct fz_file){ .at = (const uint8_t *)"" };
			f->n++;
		}
	}
}

/* Small files are as good as large ones: mostly metadata is what is worth it. */
static size_t some_file(const struct fz_files *f, uint64_t *rnd)
{
	size_t i = fz_below(rnd, f->n);

	for (unsigned tries = 0; tries < 8 && fz_below(rnd, 3) && ends(f->at[i].name, ".distcp");
	     tries++)
		i = fz_below(rnd, f->n);
	return i;
}

static size_t out(const struct fz_files *f, uint8_t *data, size_t size, size_t max)
{
	struct sf_buf packed = { .limit = max };

	fz_pack(&packed, f);
	if (!packed.failed && packed.len) {
		memcpy(data, packed.at, packed.len);
		size = packed.len;
	}
	sf_buf_release(&packed);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	static uint8_t content[FILE_MAX];
	static struct fz_files f;
	uint64_t rnd = seed;

	fz_unpack(data, size, &f);
	if (!f.n || fz_below(&rnd, 64) == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	if (f.at[0].name[0] && f.n < FZ_FILES && fz_below(&rnd, 4) == 0) {
		memmove(f.at + 1, f.at, f.n++ * sizeof(*f.at));
		f.at[0] = (struct fz_file){ .at = (const uint8_t *)"" };
	}
	if (fz_below(&rnd, 12) == 0) {
		mutate_list(&f, &rnd);
	} else {
		struct fz_file *at = &f.at[some_file(&f, &rnd)];
		size_t max =
			SF_MIN(at->len + SF_MIN(max_size - SF_MIN(size, max_size), (size_t)GROW),
		               (size_t)FILE_MAX);
		if (at->len > FILE_MAX)
			return LLVMFuzzerMutate(data, size, max_size);
		if (at->len)
			memcpy(content, at->at, at->len);
		at->len = mutate_content(at->name, content, at->len, SF_MAX(max, at->len), &rnd);
		at->at = content;
	}
	return out(&f, data, size, max_size);
}

/* Some files of the other one instead, or besides. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *data, size_t max_size, unsigned int seed)
{
	static struct fz_files f, g;
	uint64_t rnd = seed;

	fz_unpack(a, a_size, &f);
	fz_unpack(b, b_size, &g);
	for (size_t i = 0; i < g.n; i++) {
		size_t k = 0;
		if (fz_below(&rnd, 3))
			continue;
		while (k < f.n && strcmp(f.at[k].name, g.at[i].name) != 0)
			k++;
		if (k < f.n || f.n < FZ_FILES)
			f.at[k] = g.at[i];
		f.n += k == f.n && f.n < FZ_FILES;
	}
	return out(&f, data, 0, max_size);
}
