#include "runtime/heap_dumps.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"
#include "policy/options.h"
#include "prof/heap_profile.h"
#include "prof/hooks.h"
#include "runtime/named_file.h"

enum { LOOK_MS = 100, PEAK_PART = 8 };

static struct {
    uint64_t last_ms;
    uint64_t at;      /* resident bytes from which a profile is due; 0: none */
    bool at_peak;     /* `at` grows with each profile */
    _Atomic bool xat; /* one was due */
} dumps;

static void read_moment(void)
{
    const char *text = hk_options.heap_profile_at;
    dumps.at_peak = text != NULL && strcmp(text, "peak") == 0;
    dumps.at = dumps.at_peak ? 1 : 0;
    if (text == NULL || dumps.at_peak || (hk_option_number(text, strlen(text), &dumps.at) && dumps.at > 0))
        return;
    hk_message("option heap_profile_at: \"%s\" is neither peak nor a number of bytes", text);
    hk_options.heap_profile_at = NULL;
    dumps.at = 0;
}

static HK_COLD void begin_wanted(uint64_t now_ms)
{
    dumps.last_ms = now_ms;
    hk_store(dumps.xat, false);
    read_moment();
}

void hk_heap_dumps_begin(uint64_t now_ms)
{
    if (HK_UNLIKELY(hk_options.heap_profile != NULL))
        begin_wanted(now_ms);
}

bool hk_heap_dumps_wanted(void)
{
    return hk_options.heap_profile != NULL &&
           (hk_options.heap_profile_every != 0 || hk_options.heap_profile_at != NULL);
}

/* The second field of /proc/self/statm. */
static uint64_t resident_now(void)
{
    char text[128];
    uint64_t pages = 0;
    hk_os.read_file("/proc/self/statm", text, sizeof text);
    const char *at = strchr(text, ' ');
    for (at += at != NULL; at != NULL && *at >= '0' && *at <= '9'; at++)
        pages = pages * 10 + (uint64_t)(*at - '0');
    return pages * hk_os.page_size();
}

static bool has_come(void)
{
    uint64_t resident = dumps.at != 0 ? resident_now() : 0;
    if (dumps.at == 0 || resident < dumps.at)
        return false;
    dumps.at = dumps.at_peak ? resident + resident / PEAK_PART : 0;
    hk_store(dumps.xat, true);
    return true;
}

static bool dump_to_option(const char *name)
{
    struct hk_text path;
    if (strcmp(name, "-") == 0)
        return hk_heap_profile_write_to(name, HK_STDERR);
    return hk_option_path(&path, name, ".heap") && hk_heap_profile_write_to(path.bytes, HK_STDERR);
}

static void dump_wanted(void)
{
    if (!dump_to_option(hk_options.heap_profile))
        hk_message("the heap profile cannot be written to \"%s\"", hk_options.heap_profile);
}

uint64_t hk_heap_dump_if_due(uint64_t now_ms)
{
    if (!hk_heap_dumps_wanted())
        return UINT64_MAX;
    uint64_t every = hk_options.heap_profile_every, passed = now_ms - dumps.last_ms;
    bool due = every != 0 && passed >= every;
    if (has_come() || due)
        dump_wanted();
    if (due)
        dumps.last_ms = now_ms;
    uint64_t until_due = every == 0 ? UINT64_MAX : due ? every : every - passed;
    return hk_max(1, hk_min(until_due, dumps.at != 0 ? LOOK_MS : UINT64_MAX));
}

static bool dump_beside(const char *name)
{
    struct hk_text real_path, beside;
    if (!hk_named_path(&real_path, name) || !hk_os.is_replaceable(real_path.bytes))
        return false;
    hk_text_init(&beside, HK_NOWHERE);
    hk_text_add(&beside, "%s.%d.tmp", real_path.bytes, hk_os.process_id());
    int fd = hk_path_end(&beside) ? hk_os.create(beside.bytes) : -1;
    if (fd < 0)
        return false;
    hk_heap_profile_write(fd);
    hk_os.close(fd);
    return hk_os.rename(beside.bytes, real_path.bytes);
}

static bool dump_in_place(const char *name, int standard_error)
{
    int fd = hk_named_file(name, hk_os.create);
    if (fd < 0)
        return false;
    hk_heap_profile_write(fd == HK_STDERR ? standard_error : fd);
    hk_named_file_close(fd);
    return true;
}

bool hk_heap_profile_write_to(const char *path, int standard_error)
{
    if (hk_hooks.mean == 0)
        return false;
    bool is_stderr = strcmp(path, "-") == 0;
    return (!is_stderr && dump_beside(path)) || dump_in_place(path, standard_error);
}

void hk_heap_dump_at_exit(void)
{
    if (hk_options.heap_profile != NULL && (hk_options.heap_profile_at == NULL || !hk_load(dumps.xat)))
        dump_wanted();
}
