/*
 * Writes a safetensors file from memory, for the interop test to load: tool_write_st OUT. One
 * tensor [2, 3] of each dtype that safetensors' Python reader knows, by its torch name; element
 * bytes count up.
 */
#include "config.h"
#include "tests/lib/file_range.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint64_t shape[2] = { 2, 3 };
static uint8_t bytes[6 * 16];

static struct sf_st_part part(const void *arg, uint32_t number)
{
	const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)number);

	(void)arg;
	return (struct sf_st_part){ .name = info->torch,
		                    .name_len = strlen(info->torch),
		                    .shape = shape,
		                    .bytes = 6u * info->bytes,
		                    .dtype = (enum sf_dtype)number,
		                    .ndim = 2 };
}

static int put_bytes(void *arg, const void *at, size_t len)
{
	return fwrite(at, 1, len, arg) == len ? 0 : -EIO;
}

static int put_payload(void *arg, uint32_t number, uint64_t off, uint64_t len)
{
	(void)number;
	return put_bytes(arg, bytes + off, len);
}

int main(int argc, char **argv)
{
	static const char metadata[] = "{\"format\":\"pt\"}";
	uint32_t tensor[SF_NDTYPES];
	struct sf_st_file plan = { .part = part, .tensor = tensor };
	struct sf_error err = SF_ERROR_INIT;
	FILE *f = argc > 1 ? fopen(argv[1], "wb") : NULL;
	const struct sf_st_file_sink to = { put_bytes, put_payload, f };

	if (!f)
		return 2;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (uint32_t d = SF_NDTYPES; --d > 0;) {
		const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)d);
		if (info->st_order && !info->st_optional && d < SF_F8_E4M3FNUZ)
			tensor[plan.n++] = d;
	}
	int r = sf_st_file_plan(&plan, metadata, strlen(metadata), &err);
	if (r >= 0)
		r = st_file_range(&plan, 0, sf_st_file_size(&plan), &to);
	sf_st_file_release(&plan);
	return fclose(f) != 0 || r < 0;
}
