#include "config.h"
#include <inttypes.h>
#include "cli/put_damage.h"
#include "cli/text.h"

void sf_put_damage(FILE *f, const struct sf_catalog *c, const struct sf_damage_list *l,
                   const char *indent, uint32_t max)
{
	uint32_t n = l->n <= max ? l->n : max - 1;

	for (uint32_t i = 0; i < n; i++) {
		struct sf_buf b = { 0 };
		sf_damage_text(&b, c, &l->at[i]);
		fputs(indent, f);
		sf_put_name(f, sf_buf_cstr(&b), sf_buf_bytes(&b));
		putc('\n', f);
		sf_buf_release(&b);
	}
	if (n < l->n)
		fprintf(f, "%s%" PRIu32 " more of this kind (shardfuse verify lists all)\n", indent,
		        l->n - n);
}
