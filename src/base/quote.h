/* Names from outside in lines that are made to be copied: into a Python prompt, into a shell. */
#ifndef SF_BASE_QUOTE_H
#define SF_BASE_QUOTE_H

#include <stddef.h>
#include "base/buf.h"

/*
 * sf_quote_python - a string literal whose value is @s as a path of Python's (bytes that are not
 * UTF-8 by surrogateescape).
 *
 * repr()'s rules, but double quotes where they need no escape: "it's", 'say "hi"', "\x1b[31m",
 * "\udcff". Nothing in it ends the literal or moves a cursor.
 */
void sf_quote_python(struct sf_buf *out, const char *s, size_t len);
/*
 * sf_quote_shell - one word of a shell whose value is the bytes @s: as it is, 'quoted', or, where
 * there is something a terminal obeys or that is no UTF-8, $'\033[31m' (bash, zsh, ksh; not fish).
 */
void sf_quote_shell(struct sf_buf *out, const char *s, size_t len);
/*
 * sf_quote_shell_message - the same for an argument in a command within an error's message, "-- "
 * in front of one that would be taken for an option.
 *
 * Whoever prints a message doubles its backslashes, which would end a quoted word early: a word
 * that needs one, or is longer than 300 bytes, is @otherwise ("MOUNTPOINT").
 */
void sf_quote_shell_message(struct sf_buf *out, const char *s, const char *otherwise);

#endif
