/* What a mount says when it answers, beside nothing: damage, what it hides, what it lacks. */
#ifndef SF_FUSE_MOUNT_NOTES_H
#define SF_FUSE_MOUNT_NOTES_H

#include "lib/session.h"
#include "tool/common.h"

enum { SF_MOUNT_DAMAGE_LINES = 3, SF_MOUNT_NOTES = SF_MOUNT_DAMAGE_LINES + 2 };

/* Lines without newline, not escaped; the first @nwarnings are for the log too. */
struct sf_mount_notes {
	char *line[SF_MOUNT_NOTES];
	unsigned n, nwarnings;
};

/*
 * sf_mount_notes_make - what is to be said of this session mounted on @mountpoint.
 *
 * At most three lines of damage, the last of which names the command that lists all; one where
 * @mountpoint hides files; one where hf/ has no config.json. Memory: sf_mount_notes_release; where
 * there is none, less is said.
 */
void sf_mount_notes_make(struct sf_mount_notes *n, const struct sf_session *s,
                         const char *mountpoint, bool hides_files);
/* Says them on stderr unless @common->quiet; the warnings to the log too where that is
 * elsewhere. */
void sf_mount_notes_say(const struct sf_mount_notes *n, const struct sf_common *common,
                        bool foreground);
void sf_mount_notes_release(struct sf_mount_notes *n);

#endif
