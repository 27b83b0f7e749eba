/* The program: `shardfuse VERB …`, `shardfuse SOURCE MOUNTPOINT`, mount.shardfuse. */
#include "config.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/pages.h"
#include "fuse/mount.h"
#include "store/url.h"

/*
 * --memory bounds what we hold. glibc would keep what we gave back: in an arena a thread, and what
 * is below a threshold that grows to 32 MiB with what is freed. Decoded items of 16 MiB under
 * --memory 64M left 220 MiB behind. So there are two arenas, and what is large is the kernel's (as
 * base/pages.h has it for what we allocate so).
 */
static void keep_little(void)
{
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 2);
#endif
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, SF_PAGES_MIN);
	mallopt(M_TRIM_THRESHOLD, 4 * SF_PAGES_MIN);
#endif
}

/*
 * Whoever may run ps reads the arguments: userinfo and query of a URL are taken out there, as curl does
 * with its -u. The program goes on with a copy. Without memory they stay: it will not get far.
 */
static char **hide_secrets(int argc, char **argv)
{
	/* for the process's life: a leak checker sees the words here, whatever getopt does to the
	 * copy */
	static char **words, **copy;

	words = calloc((size_t)argc + 1, sizeof(*words));
	copy = calloc((size_t)argc + 1, sizeof(*copy));
	for (int i = 0; words && copy && i < argc; i++) {
		copy[i] = words[i] = strdup(argv[i]);
		if (!copy[i])
			return argv;
	}
	for (int i = 0; words && copy && i < argc; i++) {
		sf_url_hide(argv[i]);
		sf_url_hide_inside(argv[i]);
	}
	return words && copy ? copy : argv;
}

int main(int argc, char **argv)
{
	static const struct sf_cmd *const ours[] = { &sf_cmd_mount, &sf_cmd_umount,
		                                     &sf_cmd_status };
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "shardfuse";

	keep_little();
	argv = hide_secrets(argc, argv);
	if (strncmp(name, "mount.", 6) == 0)
		return sf_mount_helper(argc, argv);
	int code = sf_cli_main(argc, argv, ours, SF_ARRAY_LEN(ours));
	return code >= 0 ? code : sf_cli_run(&sf_cmd_mount, argc, argv);
}
