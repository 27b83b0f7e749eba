#include "config.h"

#include "save/save_target_dir.h"
#include "save/save_target_object.h"
#include "store/url.h"

int sf_save_target_new(const char *path, const struct sf_target_options *o,
                       struct sf_save_target **ret, struct sf_error *err)
{
	static const struct sf_target_options none;

	return sf_url_scheme(path) ? sf_save_target_object(path, o ? o : &none, ret, err)
	                           : sf_save_target_dir(path, ret, err);
}
