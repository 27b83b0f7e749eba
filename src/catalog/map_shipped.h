/* Mappings that come with the program: --map @NAME, --hf-map @NAME. */
#ifndef SF_CATALOG_MAP_SHIPPED_H
#define SF_CATALOG_MAP_SHIPPED_H

/* Its lines, "OLD<tab>NEW", as a file of --map has them; NULL: none is called so. */
const char *sf_map_shipped(const char *name);
/* Their names, for messages and --help. */
#define SF_MAP_SHIPPED "olmo-core-llama, olmo-core-olmo2"

#endif
