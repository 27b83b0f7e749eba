#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_dcp.h"
#include "save/save_format.h"

static const struct sf_save_format *const formats[] = {
	&sf_save_dcp,
	&sf_save_megatron,
	&sf_save_olmo,
};

int sf_save_format_find(const char *name, const struct sf_save_format **ret, struct sf_error *err)
{
	struct sf_buf known = { .limit = 200 }, shown = { .limit = 200 };
	int r;

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		if (!name || strcmp(name, formats[i]->name) == 0) {
			*ret = formats[i];
			return 0;
		}
	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		sf_buf_printf(&known, "%s%s", i ? ", " : "", formats[i]->name);
	sf_escape_text(&shown, name, strnlen(name, 100));
	r = sf_fail(err, -EINVAL, "format '%s': there are %s", sf_buf_cstr(&shown),
	            sf_buf_cstr(&known));
	sf_buf_release(&known);
	sf_buf_release(&shown);
	return r;
}
