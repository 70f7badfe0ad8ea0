/* Reads the settings of transparent huge pages. */
#include "span/thp.h"

#include "base/bits.h"
#include "os/os.h"
#include "span/page_map.h"

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"

enum { NOT_READ, SERVES, SERVES_NOT };
static _Atomic uint8_t xserves;

/* The mode stands in brackets: `always madvise [never]`. */
static bool is_never(const char *modes)
{
    while (*modes != 0 && *modes != '[')
        modes++;
    return modes[0] == '[' && modes[1] == 'n';
}

void hk_thp_look(void)
{
    char modes[64], size[32];
    bool says = hk_os.read_file(FOLDER "enabled", modes, sizeof modes) > 0;
    bool never = says && is_never(modes);
    says = says && !never && hk_os.read_file(FOLDER "hpage_pmd_size", size, sizeof size) > 0;
    bool serves = !never && (says ? hk_number_in(size) == HK_CHUNK : hk_system_page() == HK_PAGE);
    hk_store(xserves, serves ? SERVES : SERVES_NOT);
}

bool hk_thp_serves(void)
{
    if (HK_UNLIKELY(hk_load(xserves) == NOT_READ))
        hk_thp_look();
    return hk_load(xserves) == SERVES;
}
