#include "guard/states.h"

#include "os/os.h"

#define STATES_OF_CHUNK (HK_CHUNK >> HK_STATE_SHIFT)

static _Atomic(hk_state_byte *) xspare; /* NULL: none */

hk_state_byte *hk_states_take_spare(void)
{
    hk_state_byte *states = atomic_exchange(&xspare, NULL);
    if (states == NULL && (states = hk_os.map(STATES_OF_CHUNK)) != NULL)
        /* A huge page would hold the states of 32 MiB, of which the heap may use little. */
        hk_os.advise_huge((void *)states, STATES_OF_CHUNK, false);
    return states;
}

static void put_spare(hk_state_byte *states)
{
    states = atomic_exchange(&xspare, states);
    if (states != NULL)
        hk_os.unmap((void *)states, STATES_OF_CHUNK);
}

hk_state_byte *hk_state_make_from(uintptr_t address, hk_state_byte *spare)
{
    hk_state_byte *none = NULL;
    if (!atomic_compare_exchange_strong(&hk_state_chunk(address)->xstates, &none, spare))
        put_spare(spare);
    return hk_state_at(address);
}

HK_COLD hk_state_byte *hk_state_make_slow(uintptr_t address)
{
    hk_state_byte *states = hk_states_take_spare();
    return states != NULL ? hk_state_make_from(address, states) : NULL;
}
