/* Common: the base of the models: locks, and memory in which stores become visible late.
 *
 * A model that defines THREADS and WORDS has WORDS words of weak memory. The first THREADS processes that init runs are the
 * threads. A thread sees its own store at once, the others see it later, and stores to different words in any order, as plain
 * and relaxed stores allow. release() precedes each store or exchange that is a release: earlier stores become visible first.
 * All other variables (a flag, an exchanged word) are visible to all threads at once. */

/* `hk_lock()`, `hk_unlock()` in `base/lock.h`; futex.pml models their insides. Unlocking is a release. */
#define FREE 255
#define lock(l) atomic { l == FREE -> l = _pid }
#define holds(l) (l == _pid)

#ifdef WORDS
byte memory[WORDS];
byte late[THREADS * WORDS]; /* the stored value plus one; 0: no store is under way */
byte under_way;
hidden byte each;

#define MINE(w) late[(_pid - 1) * WORDS + (w)]
#define load(w) (MINE(w) != 0 -> MINE(w) - 1 : memory[w])

inline store(w, v)
{
    d_step {
        under_way = under_way + (MINE(w) == 0);
        MINE(w) = (v) + 1
    }
}

inline release()
{
    d_step {
        each = 0;
        do
        :: each < WORDS && MINE(each) != 0 -> memory[each] = MINE(each) - 1; MINE(each) = 0; under_way--; each++
        :: each < WORDS && MINE(each) == 0 -> each++
        :: else -> break
        od;
        each = 0
    }
}

#define unlock(l) atomic { assert(holds(l)); release(); l = FREE }

/* One store becomes visible. */
proctype Memory()
{
    byte at;
end:
    do
    :: atomic {
        under_way > 0;
        do
        :: at < THREADS * WORDS - 1 -> at++
        :: late[at] != 0 -> memory[at % WORDS] = late[at] - 1; late[at] = 0; under_way--; break
        :: else -> break
        od;
        at = 0
    }
    od
}
#else
#define unlock(l) atomic { assert(holds(l)); l = FREE }
#endif
