/* Collects the facts about later events that the writer of the plan needs. */
#include "plan.h"
#include <stdio.h>
#include <stdlib.h>

struct touch {
    uint64_t born;
    uint32_t pages;
};

struct overview {
    struct touch *touches; /* sorted by `born` */
    size_t touch_count, next_touch;
    uint64_t *last_order; /* for each thread, the place of its last operation in the order */
    uint32_t last_thread;
    uint64_t *lane_until; /* for each lane, the place of the last operation of its last thread */
    uint32_t lanes;
    struct rec_totals totals;
};

/* Notes an operation. A free or realloc tells how many pages of its block were touched. The number is stored with `born`, the place in the order of
 * the allocation or realloc that gave the block its size. */
static bool note(void *context, const struct rec_op *op)
{
    struct overview *overview = context;
    if (overview->last_order[op->thread] == 0 && overview->last_thread != UINT32_MAX)
        overview->last_order[overview->last_thread] = op->order; /* in the plan, this thread starts the new one */
    overview->last_order[op->thread] = op->order;
    overview->last_thread = op->thread;
    if (op->touched == 0)
        return true;
    struct touch *larger = rec_with_room(overview->touches, overview->touch_count, sizeof *larger);
    if (larger == NULL)
        return false;
    overview->touches = larger;
    overview->touches[overview->touch_count++] = (struct touch){op->block.born, op->touched - 1};
    return true;
}

static int by_birth(const void *left, const void *right)
{
    const struct touch *a = left, *b = right;
    return a->born < b->born ? -1 : a->born > b->born;
}

struct overview *overview_open(struct rec_reader *reader)
{
    struct overview *overview = calloc(1, sizeof *overview);
    if (overview != NULL) {
        overview->last_thread = UINT32_MAX;
        overview->last_order = calloc(reader->threads + 1, sizeof *overview->last_order);
        overview->lane_until = calloc(reader->threads + 1, sizeof *overview->lane_until);
    }
    if (overview == NULL || overview->last_order == NULL || overview->lane_until == NULL ||
        !rec_book_read(reader, note, overview, &overview->totals)) {
        if (reader->why[0] == '\0')
            snprintf(reader->why, sizeof reader->why, "out of memory");
        overview_close(overview);
        return NULL;
    }
    if (overview->touch_count > 1)
        qsort(overview->touches, overview->touch_count, sizeof *overview->touches, by_birth);
    return overview;
}

void overview_close(struct overview *overview)
{
    if (overview == NULL)
        return;
    free(overview->touches);
    free(overview->last_order);
    free(overview->lane_until);
    free(overview);
}

bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages)
{
    const struct touch *touches = overview->touches;
    size_t *next = &overview->next_touch;
    while (*next < overview->touch_count && touches[*next].born < order)
        ++*next;
    if (*next == overview->touch_count || touches[*next].born != order)
        return false;
    *pages = touches[*next].pages;
    return true;
}

uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order)
{
    uint32_t lane = 0;
    while (lane < overview->lanes && overview->lane_until[lane] >= order)
        lane++;
    overview->lanes += lane == overview->lanes;
    overview->lane_until[lane] = overview->last_order[thread];
    return lane;
}

uint32_t overview_lanes(const struct overview *overview) { return overview->lanes; }

const struct rec_totals *overview_totals(const struct overview *overview) { return &overview->totals; }
