/*
 * Reads a pickle (one, protocols 0 to 5) from stdin and writes it again in protocol 2, as objects
 * in a .pt view are written. Storages keep their numbers. With -w: prints what
 * torch.load(weights_only=True) would refuse first, nothing if it takes all.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "parse/pickle_write.h"

static int same_number(void *arg, const char *key, size_t key_len, uint64_t *ret_number,
                       struct sf_error *err)
{
	(void)arg, (void)key_len;
	*ret_number = strtoull(key, NULL, 10);
	(void)err;
	return 0;
}

int main(int argc, char **argv)
{
	struct sf_arena arena = { 0 };
	struct sf_buf in = { .limit = (size_t)1 << 30 }, out = { .limit = (size_t)1 << 30 };
	struct sf_error err = { { 0 } };
	struct sf_pickle_writer w;
	struct sf_pv *v = NULL;
	uint8_t block[65536];
	size_t n, used;
	int r;

	while ((n = fread(block, 1, sizeof(block), stdin)) > 0)
		sf_buf_add(&in, block, n);
	r = sf_pickle_parse(in.at, in.len, NULL, &arena, &v, &used, &err);
	if (r == 0 && argc > 1 && strcmp(argv[1], "-w") == 0) {
		const char *refused = sf_pv_weights_only(v, &arena);
		if (refused)
			puts(refused);
	} else if (r == 0) {
		r = sf_pickle_writer_init(&w, &out, &arena);
		w.storage = same_number;
		if (r == 0) {
			sf_pw_proto(&w);
			r = sf_pw_value(&w, v, &err);
			sf_pw_stop(&w);
			sf_pickle_writer_release(&w);
		}
		if (r == 0)
			fwrite(out.at, 1, out.len, stdout);
	}
	if (r < 0)
		fprintf(stderr, "%d %s\n", r, err.msg);
	sf_buf_release(&in);
	sf_buf_release(&out);
	sf_arena_release(&arena);
	return r < 0;
}
