#include "span/thp.h"

#include "base/number.h"
#include "os/os.h"
#include "span/page_map.h"

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"

static bool serves;

bool hk_thp_serves(void) { return serves; }

/* The mode stands in brackets: `always madvise [never]`. */
static bool is_never(const char *modes)
{
    while (*modes != 0 && *modes != '[')
        modes++;
    return modes[0] == '[' && modes[1] == 'n';
}

void hk_thp_init(void)
{
    char modes[64], size[32];
    bool says = hk_os.read_file(FOLDER "enabled", modes, sizeof modes) > 0;
    bool never = says && is_never(modes);
    says = says && !never && hk_os.read_file(FOLDER "hpage_pmd_size", size, sizeof size) > 0;
    serves = !never && (says ? hk_number_in(size) == HK_CHUNK : hk_system_page() == HK_PAGE);
}
