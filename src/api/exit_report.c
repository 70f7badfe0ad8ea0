#include "api/exit_report.h"

#include <string.h>

#include "base/say.h"
#include "hakmem.h"
#include "os/os.h"
#include "policy/options.h"
#include "report/report.h"

static struct hk_process this_process(void)
{
    char text[128];
    size_t pages[2] = {0, 0};
    hk_os.read_file("/proc/self/statm", text, sizeof text);
    const char *at = text;
    for (int i = 0; i < 2; i++, at += *at == ' ')
        for (; *at >= '0' && *at <= '9'; at++)
            pages[i] = pages[i] * 10 + (size_t)(*at - '0');
    return (struct hk_process){hk_os.process_id(), pages[0] * HK_PAGE, pages[1] * HK_PAGE};
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* %p becomes the process id, so that children do not write over their parent's report. */
static int create_named(const char *path)
{
    struct hk_text name;
    hk_text_init(&name, -1);
    for (const char *at = path; *at != 0; at++) {
        if (at[0] == '%' && at[1] == 'p') {
            hk_text_add(&name, "%d", hk_os.process_id());
            at++;
        } else {
            hk_text_add(&name, "%c", *at);
        }
    }
    if (name.used >= sizeof name.bytes)
        return -1;
    name.bytes[name.used] = 0;
    return hk_os.create(name.bytes);
}

HK_EXPORT int hak_report(const char *path)
{
    bool to_stderr = strcmp(path, "-") == 0;
    int fd = to_stderr ? 2 : create_named(path);
    if (fd < 0)
        return -1;
    struct hk_census census;
    struct hk_process process = this_process();
    hk_census_take(&census);
    if (ends_with(path, ".json"))
        hk_report_json(fd, &census, &process);
    else
        hk_report_text(fd, &census, &process);
    if (!to_stderr)
        hk_os.close(fd);
    return 0;
}

void hk_exit_report(void)
{
    if (hk_options.report != NULL && hak_report(hk_options.report) != 0)
        hk_say("the report cannot be written to \"%s\"", hk_options.report);
}

HK_COLD void hk_first_refusal_report(size_t asked)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (!hk_options.oom_report || atomic_flag_test_and_set(&reported))
        return;
    struct hk_process process = this_process();
    hk_report_out_of_memory(asked, hk_os.address_limit(), &process);
}
