#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/doctor_system.h"

/* By the words of os-release's ID and ID_LIKE. Source: os-release(5). */
static const struct {
	const char *id, *install, *reinstall;
} families[] = {
	{ "debian", "apt-get install", "apt-get install --reinstall" },
	{ "ubuntu", "apt-get install", "apt-get install --reinstall" },
	{ "fedora", "dnf install", "dnf reinstall" },
	{ "rhel", "dnf install", "dnf reinstall" },
	{ "centos", "dnf install", "dnf reinstall" },
	{ "suse", "zypper install", "zypper install --force" },
	{ "opensuse", "zypper install", "zypper install --force" },
	{ "arch", "pacman -S", "pacman -S" },
	{ "alpine", "apk add", "apk fix" },
};

/* "NAME=value" or NAME="value" -> value, in place; NULL: another line. */
static char *value_of(char *line, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(line, name, n) != 0 || line[n] != '=')
		return NULL;
	char *v = line + n + 1, *end = v + strcspn(v, "\n");
	if (end > v + 1 && (*v == '"' || *v == '\'') && end[-1] == *v) {
		v++;
		end--;
	}
	*end = 0;
	return v;
}

static void choose(struct sf_system *s, char *ids)
{
	char *save = NULL;

	for (char *id = strtok_r(ids, " ", &save); id && !s->install;
	     id = strtok_r(NULL, " ", &save))
		for (size_t i = 0; i < SF_ARRAY_LEN(families) && !s->install; i++)
			if (strcmp(id, families[i].id) == 0) {
				s->install = families[i].install;
				s->reinstall = families[i].reinstall;
			}
}

/* Source: systemd.io/CONTAINER_INTERFACE; the files docker and podman make; the variable kubelet
 * sets. */
static const char *find_container(void)
{
	static const char *const known[] = { "podman", "docker", "lxc", "systemd-nspawn", "oci" };
	const char *env = getenv("container");

	if (getenv("KUBERNETES_SERVICE_HOST"))
		return "kubernetes";
	if (access("/run/.containerenv", F_OK) == 0)
		return "podman";
	if (access("/.dockerenv", F_OK) == 0)
		return "docker";
	for (size_t i = 0; env && i < SF_ARRAY_LEN(known); i++)
		if (strcmp(env, known[i]) == 0)
			return known[i];
	return env && *env ? "container" : NULL;
}

void sf_system_look(struct sf_system *s, const char *os_release)
{
	FILE *f = fopen(os_release ? os_release : "/etc/os-release", "re");
	char line[512], id[256] = "", like[256] = "";

	if (!f && !os_release)
		f = fopen("/usr/lib/os-release", "re");
	*s = (struct sf_system){ .root = geteuid() == 0, .container = find_container() };
	while (f && fgets(line, sizeof(line), f)) {
		char *v;
		if ((v = value_of(line, "PRETTY_NAME")))
			snprintf(s->name, sizeof(s->name), "%s", v);
		else if ((v = value_of(line, "ID")))
			snprintf(id, sizeof(id), "%s", v);
		else if ((v = value_of(line, "ID_LIKE")))
			snprintf(like, sizeof(like), "%s", v);
	}
	if (f)
		fclose(f);
	choose(s, id);
	choose(s, like);
	if (!s->name[0])
		snprintf(s->name, sizeof(s->name), "unknown (no os-release)");
}

const char *sf_system_install(const struct sf_system *s, bool again, const char *debian,
                              const char *fedora, char *buf, size_t size)
{
	bool deb = s->install && strncmp(s->install, "apt", 3) == 0;

	if (s->install)
		snprintf(buf, size, "%s%s %s", s->root ? "" : "sudo ",
		         again ? s->reinstall : s->install, deb ? debian : fedora);
	else
		snprintf(buf, size, "install the package (Debian, Ubuntu: %s; Fedora: %s)", debian,
		         fedora);
	return buf;
}

static bool is(const struct sf_system *s, const char *container)
{
	return s->container && strcmp(s->container, container) == 0;
}

const char *sf_system_device(const struct sf_system *s)
{
	if (is(s, "kubernetes"))
		return "a Pod needs securityContext: {privileged: true}, or a device plugin that "
		       "gives it /dev/fuse";
	if (is(s, "podman"))
		return "podman run --device /dev/fuse --cap-add SYS_ADMIN …";
	if (is(s, "docker"))
		return "docker run --device /dev/fuse --cap-add SYS_ADMIN --security-opt "
		       "apparmor=unconfined …";
	if (s->container)
		return "start the container with the device /dev/fuse and CAP_SYS_ADMIN";
	return s->root ? "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN"
	               : "sudo modprobe fuse; in a container: --device /dev/fuse --cap-add "
	                 "SYS_ADMIN";
}

const char *sf_system_right(const struct sf_system *s)
{
	if (is(s, "kubernetes"))
		return "a Pod needs securityContext: {privileged: true}";
	if (is(s, "podman"))
		return "podman run --cap-add SYS_ADMIN …";
	if (is(s, "docker"))
		return "docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined …";
	return "in a container: --cap-add SYS_ADMIN (and --security-opt apparmor=unconfined)";
}
