/* Inside of save_item: what tensors and objects share. */
#ifndef SF_SAVE_SAVE_ITEM_PRIV_H
#define SF_SAVE_SAVE_ITEM_PRIV_H

#include "save/save_item.h"

/* key and path of an item as the caller gives them. Copies; a path of the key alone becomes none. */
struct sf_item_name {
	const char *key;
	size_t key_len;
	const struct shardfuse_save_step *path;
	size_t npath;
};
int sf_item_set_name(struct sf_save_items *s, const struct sf_item_name *name,
                     struct sf_save_item *item, struct sf_error *err);
/* Appends. @once: another of that key and origin is refused. */
int sf_item_push(struct sf_save_items *s, const struct sf_save_item *item, bool once,
                 struct sf_error *err);

#endif
