/* Where parameters lie in flat partitions. Used by ds_slice.c alone. */
#ifndef SF_FORMAT_DS_PLACES_H
#define SF_FORMAT_DS_PLACES_H

#include "format/deepspeed/ds_slice.h"

/* The flat tensors of all ranks, and of which states there are such: s->moment. */
int ds_find_moments(struct ds_slice *s, struct sf_error *err);
/* Each parameter's off, each and sub. @one: the shapes did not say groups. -EBADMSG: they do not fit. */
int ds_find_places(struct ds_slice *s, bool one, struct sf_error *err);

#endif
