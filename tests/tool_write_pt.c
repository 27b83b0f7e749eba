/*
 * Writes a .pt archive as our views do, for the interop test to load: tool_write_pt OUT
 * [BIG-BYTES]. One tensor of each dtype in a dict by its name; element bytes count up. With
 * BIG-BYTES a uint8 tensor "big" of that many zeros (a hole in the file) comes first, so that the
 * others lie behind 4 GiB.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/zip_write.h"

#define RECORDS (SF_NDTYPES + 5)

struct archive {
	FILE *f;
	struct sf_buf buf;
	struct sf_zip_entry entry[RECORDS];
	char name[RECORDS][32];
	size_t n;
	uint64_t at;
};

/* NULL data: a hole of zeros */
static void record(struct archive *a, const char *name, const void *data, uint64_t len)
{
	struct sf_zip_entry *e = &a->entry[a->n];

	snprintf(a->name[a->n], sizeof(a->name[a->n]), "checkpoint/%s", name);
	*e = (struct sf_zip_entry){ a->name[a->n], strlen(a->name[a->n]), a->at, len,
		                    data ? sf_crc32(0, data, len) : 0 };
	a->n++;
	sf_buf_reset(&a->buf);
	sf_zip_put_header(&a->buf, e);
	fwrite(a->buf.at, 1, a->buf.len, a->f);
	if (data)
		fwrite(data, 1, len, a->f);
	else
		fseeko(a->f, (off_t)len, SEEK_CUR);
	a->at += a->buf.len + len;
}

int main(int argc, char **argv)
{
	static struct archive a;
	struct sf_arena arena = { 0 };
	struct sf_buf pkl = { 0 };
	struct sf_pickle_writer w;
	uint64_t big = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, number = 0, dir_off;
	const uint64_t shape[2] = { 2, 3 };
	uint8_t bytes[6 * 16];
	char name[32];

	a.f = argc > 1 ? fopen(argv[1], "wb") : NULL;
	if (!a.f || sf_pickle_writer_init(&w, &pkl, &arena) < 0)
		return 2;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	sf_pw_proto(&w);
	sf_buf_str(&pkl, "}(");
	if (big) {
		sf_pw_name(&w, "big", 3);
		sf_pw_tensor(&w, &(struct sf_pw_tensor){ SF_UINT8, 1, &big, big, number++ });
	}
	for (int d = 1; d < SF_NDTYPES; d++) {
		const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)d);
		sf_pw_name(&w, info->torch, strlen(info->torch));
		sf_pw_tensor(&w, &(struct sf_pw_tensor){ (enum sf_dtype)d, 2, shape,
		                                         6 * info->bytes, number++ });
	}
	sf_buf_str(&pkl, "u");
	sf_pw_stop(&w);
	record(&a, "data.pkl", pkl.at, pkl.len);
	record(&a, "byteorder", "little", 6);
	number = 0;
	if (big)
		record(&a, "data/0", NULL, big), number++;
	for (int d = 1; d < SF_NDTYPES; d++) {
		snprintf(name, sizeof(name), "data/%" PRIu64, number++);
		record(&a, name, bytes, 6u * sf_dtype_info((enum sf_dtype)d)->bytes);
	}
	record(&a, "version", "3\n", 2);
	dir_off = a.at;
	sf_buf_reset(&a.buf);
	for (size_t i = 0; i < a.n; i++)
		sf_zip_put_central(&a.buf, &a.entry[i]);
	sf_zip_put_end(&a.buf, a.n, dir_off, a.buf.len);
	fwrite(a.buf.at, 1, a.buf.len, a.f);
	sf_pickle_writer_release(&w);
	sf_buf_release(&a.buf);
	sf_buf_release(&pkl);
	sf_arena_release(&arena);
	return fclose(a.f) != 0;
}
