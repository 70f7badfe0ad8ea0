/* This library is preloaded after HAKMEM. It refuses each new thread (REFUSE_THREADS) or each key of pthread_key_create(). */
#include <errno.h>
#include <pthread.h>

#ifdef REFUSE_THREADS
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    (void)thread, (void)attributes, (void)run, (void)argument;
    return EAGAIN;
}
#else
int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    (void)key, (void)end;
    return EAGAIN;
}
#endif
