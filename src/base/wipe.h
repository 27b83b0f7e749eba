/* Secrets that are no longer needed. */
#ifndef SF_BASE_WIPE_H
#define SF_BASE_WIPE_H

#include <stdlib.h>
#include <string.h>

/* Frees a text that is a secret or has one in it: none of it stays. NULL is fine. */
static inline void sf_wipe_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

#endif
