/* For static programs that are linked with musl on Debian: GCC's unwinder (libgcc_eh.a) is built there for glibc, which it asks in
 * which object an address lies (_dl_find_object, glibc 2.35). musl has no such call. It has dl_iterate_phdr, which is enough. */

#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>

/* As in glibc's <dlfcn.h> on x86-64 and aarch64, where DLFO_STRUCT_HAS_EH_DBASE is 0. */
struct dl_find_object {
  unsigned long long flags;
  void *map_start;
  void *map_end;
  struct link_map *link_map;
  void *eh_frame;
  unsigned long long reserved[7];
};

struct search {
  char *address;
  struct dl_find_object *found;
};

static int look(struct dl_phdr_info *object, size_t size, void *data) {
  struct search *search = data;
  char *eh_frame = NULL;
  int is_here = 0;
  (void)size;
  for (int at = 0; at < object->dlpi_phnum; at++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[at];
    char *start = (char *)(object->dlpi_addr + segment->p_vaddr);
    if (segment->p_type == PT_GNU_EH_FRAME) {
      eh_frame = start;
    } else if (segment->p_type == PT_LOAD && search->address >= start && search->address < start + segment->p_memsz) {
      search->found->map_start = start;
      search->found->map_end = start + segment->p_memsz;
      is_here = 1;
    }
  }
  if (!is_here || !eh_frame) return 0;
  search->found->flags = 0;
  search->found->link_map = NULL;
  search->found->eh_frame = eh_frame;
  return 1;
}

int _dl_find_object(void *address, struct dl_find_object *found) {
  struct search search = {address, found};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
