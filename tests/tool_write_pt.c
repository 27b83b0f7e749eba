/*
 * Writes a .pt archive from memory, for the interop test to load: tool_write_pt OUT [BIG-BYTES].
 * One tensor of each dtype in a dict by its name; element bytes count up. With BIG-BYTES a uint8
 * tensor "big" of that many zeros (a hole in the file) comes first, so that the others lie behind 4
 * GiB.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/zip_write.h"
#include "tests/lib/file_range.h"

struct archive {
	FILE *f;
	struct sf_buf pkl;
	struct sf_torch_storage storage[SF_NDTYPES + 1];
	uint64_t big; /* of storage 0 */
	uint8_t bytes[6 * 16];
};

static struct sf_torch_storage storage(const void *arg, uint32_t i)
{
	return ((const struct archive *)arg)->storage[i];
}

static int put(struct archive *a, const void *at, size_t len)
{
	return fwrite(at, 1, len, a->f) == len ? 0 : -EIO;
}

static int put_bytes(void *arg, const void *at, size_t len)
{
	return put(arg, at, len);
}

static int put_pickle(void *arg, uint64_t off, uint64_t len)
{
	struct archive *a = arg;

	return put(a, a->pkl.at + off, len);
}

static int put_payload(void *arg, uint32_t i, uint64_t off, uint64_t len)
{
	struct archive *a = arg;

	if (i == 0 && a->big)
		return fseeko(a->f, (off_t)len, SEEK_CUR);
	return put(a, a->bytes + off, len);
}

static void add(struct archive *a, struct sf_torch_file *plan, struct sf_pickle_writer *w,
                const char *name, const struct sf_pw_tensor *t, bool hole)
{
	sf_pw_name(w, name, strlen(name));
	sf_pw_tensor(w, t);
	a->storage[plan->nstorage++] =
		(struct sf_torch_storage){ .len = t->bytes,
		                           .crc = hole ? 0 : sf_crc32(0, a->bytes, t->bytes) };
}

int main(int argc, char **argv)
{
	static struct archive a;
	static uint64_t start[SF_TORCH_FILE_PIECES(SF_NDTYPES + 1) + 1];
	const uint64_t shape[2] = { 2, 3 };
	struct sf_pickle_writer w = { .out = &a.pkl };
	struct sf_torch_file plan = { .storage = storage, .arg = &a, .start = start };
	const struct sf_torch_file_sink to = { put_bytes, put_pickle, put_payload, &a };
	struct sf_error err = SF_ERROR_INIT;

	a.f = argc > 1 ? fopen(argv[1], "wb") : NULL;
	a.big = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	if (!a.f)
		return 2;
	for (size_t i = 0; i < sizeof(a.bytes); i++)
		a.bytes[i] = (uint8_t)i;
	sf_pw_proto(&w);
	sf_pw_op(&w, '}');
	sf_pw_op(&w, '(');
	if (a.big) {
		const struct sf_pw_tensor t = { SF_UINT8, 1, &a.big, a.big, plan.nstorage };
		add(&a, &plan, &w, "big", &t, true);
	}
	for (int d = 1; d < SF_NDTYPES; d++) {
		const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)d);
		const struct sf_pw_tensor t = { (enum sf_dtype)d, 2, shape, 6 * info->bytes,
			                        plan.nstorage };
		add(&a, &plan, &w, info->torch, &t, false);
	}
	sf_pw_op(&w, 'u');
	sf_pw_stop(&w);
	plan.pkl_len = a.pkl.len;
	plan.pkl_crc = sf_crc32(0, a.pkl.at, a.pkl.len);
	int r = sf_buf_check(&a.pkl);
	if (r >= 0)
		r = sf_torch_file_plan(&plan, &err);
	if (r >= 0)
		r = torch_file_range(&plan, 0, sf_torch_file_size(&plan), &to);
	sf_buf_release(&a.pkl);
	return fclose(a.f) != 0 || r < 0;
}
