/* This machine, as far as a remedy depends on it. */
#ifndef SF_CLI_DOCTOR_SYSTEM_H
#define SF_CLI_DOCTOR_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

struct sf_system {
	char name[128];        /* "Debian GNU/Linux 12 (bookworm)", of os-release */
	const char *install;   /* "apt-get install", NULL: nobody knows */
	const char *reinstall; /* "apt-get install --reinstall" */
	const char *container; /* "docker", "podman", "kubernetes", "lxc" … or NULL */
	bool root;
};
/* @os_release: NULL for this machine's. */
void sf_system_look(struct sf_system *s, const char *os_release);
/* The command that installs a package, with sudo in front for users: "sudo apt-get install fuse3".
 * Where nobody knows how: both families' names. */
const char *sf_system_install(const struct sf_system *s, bool again, const char *debian,
                              const char *fedora, char *buf, size_t size);
/* What gives this container /dev/fuse and the right to mount; on a plain machine how the device
 * comes. */
const char *sf_system_device(const struct sf_system *s);
const char *sf_system_right(const struct sf_system *s);

#endif
