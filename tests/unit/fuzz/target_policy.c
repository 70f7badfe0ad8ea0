/* Tests src/policy and src/count: size classes, page map entries, knobs, the countdown to samples, decisions, rings, and the reuse of memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "count/countdown.h"
#include "count/decisions.h"
#include "count/stats.h"
#include "count/ring.h"
#include "unit/fuzz/fuzz.h"
#include "policy/classes.h"
#include "policy/policy.h"
#include "slab/slab.h"
#include "unit/fake_os.h"

void fuzz_classes(struct fuzz_input *in)
{
    while (fuzz_next(in)) {
        size_t size = fuzz_word(in) % (HK_MEDIUM_MAX + 1), align = (size_t)1 << fuzz_below(in, 17),
               bytes = size < 16 ? 16 : size;
        unsigned class = 0, aligned, fits = HK_CLASSES - 1;
        while (hk_classes[class].size < size)
            class ++;
        for (aligned = class; aligned < HK_CLASSES && hk_classes[aligned].size % align != 0;)
            aligned++;
        while (hk_classes[fits].size > bytes)
            fits--;
        FUZZ_CHECK(hk_class_of(size) == class, "(%zu)", size);
        FUZZ_CHECK(hk_class_of_aligned(size, align) == aligned, "(%zu, %zu)", size, align);
        FUZZ_CHECK(hk_class_that_fits(bytes) == fits, "(%zu)", bytes);
    }
}

void fuzz_which(struct fuzz_input *in)
{
    while (fuzz_next(in)) {
        unsigned class = (unsigned)fuzz_below(in, HK_CLASSES);
        size_t offset = (uint32_t)fuzz_word(in), index, size = hk_classes[class].size;
        offset = fuzz_byte(in) % 2 == 0 ? offset : (uint32_t)(offset / size * size + fuzz_byte(in) % 3 - 1);
        FUZZ_CHECK(hk_which(offset, hk_reciprocal(size), &index) == (offset % size == 0) && index == offset / size,
                   "(%zu, %zu)", offset, size);
    }
}

/* Packs page map entries and ages, and checks that unpacking returns the same values. */
void fuzz_entry(struct fuzz_input *in)
{
    while (fuzz_next(in)) {
        uint32_t owner = (uint32_t)fuzz_word(in) % (1u << 19), other = (uint32_t)fuzz_word(in) % (1u << 19);
        unsigned class = (unsigned)fuzz_below(in, HK_CLASSES + 1);
        uint32_t entry = hk_entry(owner, class), mixed = entry | HK_ENTRY_MIXED;
        FUZZ_CHECK(hk_entry_owner(entry) == owner && hk_entry_class(entry) == class && !hk_entry_is_mixed(entry));
        FUZZ_CHECK(hk_entry_owner(mixed) == owner && hk_entry_class(mixed) == class && hk_entry_is_mixed(mixed));
        FUZZ_CHECK(hk_entry_is_plain_from(entry, other) == (owner >= other) && !hk_entry_is_plain_from(mixed, 0));
        uint64_t then = fuzz_word(in) >> 1, passed = fuzz_word(in) % ((uint64_t)0xffff << HK_AGE_SHIFT);
        uint64_t age = hk_age_since(hk_age_stamp(then), then + passed);
        FUZZ_CHECK(age == ((then + passed) / 64 - then / 64) * 64, "(%lu, %lu: %lu)", (unsigned long)then,
                   (unsigned long)passed, (unsigned long)age);
    }
}

/* Every published knob must be read back. If the system refuses, the old knobs must stay in force. */
void fuzz_policy(struct fuzz_input *in)
{
    struct hk_knobs model, read;
    hk_policy_begin();
    hk_policy_read(&model);
    while (fuzz_next(in)) {
        struct hk_knobs next;
        static fake_refuse *const plans[] = {
            NULL, NULL, fake_refuse_seal, fake_refuse_unseal, fake_refuse_map, fake_refuse_all};
        enum hk_phase phase = (enum hk_phase)fuzz_below(in, HK_PHASES);
        fake_os_refuse(plans[fuzz_below(in, 6)]);
        for (unsigned knob = 0; knob < HK_KNOBS; knob++)
            next.value[knob] = fuzz_byte(in) + 1000 * knob;
        if (hk_policy_publish(&next, phase)) {
            model = next;
            FUZZ_CHECK(hk_policy_phase() == phase);
        } else {
            FUZZ_CHECK(fake_os.refuse != NULL);
        }
        hk_policy_read(&read);
        FUZZ_CHECK(memcmp(&read, &model, sizeof read) == 0);
    }
}

/* The weight of a sample must be its size divided by the share of blocks that are sampled, 1 - exp(-size / mean), because readers of a profile
 * divide by this share. */
void fuzz_countdown(struct fuzz_input *in)
{
    uint64_t seed = fuzz_word(in) | 1, mean = 1 + fuzz_word(in) % ((uint64_t)1 << 40);
    struct hk_countdown countdown = {.left = -1, .random = seed}, again = countdown;
    FUZZ_CHECK(hk_countdown_picks(&countdown, mean) && hk_countdown_picks(&again, mean));
    while (fuzz_next(in)) {
        size_t size = 1 + fuzz_word(in) % ((uint64_t)1 << 40);
        double share = -expm1(-(double)size / (double)mean), weight = (double)hk_countdown_weight(size, mean);
        FUZZ_CHECK(fabs(weight * share - (double)size) <= 1e-6 * (double)size + share, "(%zu of %lu: %f)", size,
                   (unsigned long)mean, weight);
        int64_t left = countdown.left;
        bool may = hk_countdown_runs_out(&countdown, size);
        FUZZ_CHECK(may == (left < (int64_t)size) && countdown.left == left - (int64_t)size);
        bool picks = may && hk_countdown_picks(&countdown, mean);
        FUZZ_CHECK(picks == may && (!picks || (countdown.left >= 0 && (double)countdown.left <= 40.0 * (double)mean)));
        if (hk_countdown_runs_out(&again, size))
            hk_countdown_picks(&again, mean);
        FUZZ_CHECK(again.left == countdown.left);
    }
}

void fuzz_decisions(struct fuzz_input *in)
{
    static struct hk_decision model[HK_DECISIONS_HELD];
    uint64_t first = 0, end = 0, lost = 0;
    struct hk_decision decision;
    while (hk_decision_take(&decision))
        continue;
    (void)hk_decisions_lost();
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        if (op < 128) {
            for (unsigned i = 0; i <= op % 64; i++) {
                decision = (struct hk_decision){.ms = fuzz_byte(in), .kind = op, .before = end, .size = first + i};
                hk_decision_note(&decision);
                lost += end - first == HK_DECISIONS_HELD;
                if (end - first < HK_DECISIONS_HELD)
                    model[end++ % HK_DECISIONS_HELD] = decision;
            }
        } else if (op < 248) {
            bool taken = hk_decision_take(&decision);
            FUZZ_CHECK(taken == (first < end));
            FUZZ_CHECK(!taken || memcmp(&decision, &model[first++ % HK_DECISIONS_HELD], sizeof decision) == 0);
        } else if (op < 252) {
            FUZZ_CHECK(hk_decisions_lost() == lost);
            lost = 0;
        } else {
            hk_decisions_forget();
            first = end;
        }
    }
}

struct seen_events {
    struct hk_event_seen events[256];
    size_t count;
};

static void see_event(void *context, const struct hk_event_seen *event)
{
    struct seen_events *seen = context;
    FUZZ_CHECK(seen->count < 256);
    seen->events[seen->count++] = *event;
}

void fuzz_ring(struct fuzz_input *in)
{
    static struct hk_event slots[256], none;
    static struct hk_event_seen model[4096];
    struct hk_ring ring = {.size = 0};
    size_t wanted = 2 + fuzz_below(in, 255), size = hk_ring_size(wanted), noted = 0;
    FUZZ_CHECK(size >= wanted && size < 2 * wanted && (size & (size - 1)) == 0);
    for (size_t i = 0; i < 256; i++)
        memcpy(&slots[i], &none, sizeof none);
    hk_ring_open(&ring, slots, size);
    while (fuzz_next(in) && noted < 4096) {
        uint8_t op = fuzz_byte(in);
        if (op >= 32) {
            model[noted] = (struct hk_event_seen){(enum hk_event_kind)(op % HK_EVENTS), 0, fuzz_byte(in), noted};
            hk_ring_note_slow(&ring, model[noted].kind, model[noted].amount, model[noted].address);
            noted++;
            continue;
        }
        struct seen_events seen = {.count = 0};
        hk_ring_read(&ring, see_event, &seen);
        size_t first = noted > size ? noted - size : 0;
        FUZZ_CHECK(seen.count == noted - first);
        for (size_t i = 0; i < seen.count; i++)
            FUZZ_CHECK(seen.events[i].kind == model[first + i].kind &&
                       seen.events[i].amount == model[first + i].amount &&
                       seen.events[i].address == model[first + i].address &&
                       (i == 0 || seen.events[i].clock_ns >= seen.events[i - 1].clock_ns));
    }
}

void fuzz_reuse(struct fuzz_input *in)
{
    uint64_t before[HK_REUSE_SPANS], more[HK_REUSE_SPANS] = {0}, latest = hk_reuse_now();
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        before[span] = hk_load(hk_reuse.xback[span]);
    while (fuzz_next(in)) {
        uint64_t ms = fuzz_word(in), bytes = fuzz_byte(in);
        unsigned span = 0;
        while (span + 1 < HK_REUSE_SPANS && ms > ((uint64_t)HK_REUSE_SHORTEST << span))
            span++;
        hk_reuse_back(ms, bytes);
        more[span] += bytes;
        for (unsigned i = 0; i < HK_REUSE_SPANS; i++)
            FUZZ_CHECK(hk_load(hk_reuse.xback[i]) - before[i] == more[i], "(%lu ms: span %u)", (unsigned long)ms, i);
        latest = ms > latest ? ms : latest;
        hk_reuse_saw(ms);
        FUZZ_CHECK(hk_reuse_now() == latest);
    }
}
