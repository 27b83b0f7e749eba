#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fz_files.h"

/* tool_fuzz_pack DIR [WORDS] > INPUT: a checkpoint as one input of fuzz_whole. */
int main(int argc, char **argv)
{
	struct sf_buf out = { 0 };
	int r;

	if (argc < 2)
		return 2;
	r = fz_pack_dir(&out, argv[1], argc > 2 ? argv[2] : "");
	if (r < 0 || out.failed || fwrite(out.at, 1, out.len, stdout) != out.len ||
	    fflush(stdout)) {
		fprintf(stderr, "%s: cannot be packed\n", argv[1]);
		return EXIT_FAILURE;
	}
	sf_buf_release(&out);
	return EXIT_SUCCESS;
}
