/* gdb, strace and ltrace trace this program. It has threads with lists and buffers, a child, files, and a function for a breakpoint.
 * Without arguments it runs to its end. With "wait" it waits for a line of input after it built the lists. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    int number;
    char *text;
};

struct node *lists[4];
int rounds = 40;

__attribute__((noinline)) void stop_here(struct node *list, int thread)
{
    __asm__ volatile("" : : "r"(list), "r"(thread) : "memory");
}

static void push(struct node **list, int number, int thread)
{
    struct node *made = malloc(sizeof *made);
    char text[32];
    snprintf(text, sizeof text, "thread %d number %d", thread, number * 7919 % 1009);
    *made = (struct node){*list, number, strdup(text)};
    *list = made;
}

static void *work(void *given)
{
    int thread = (int)(long)given;
    for (int round = 0; round < rounds; round++) {
        for (int n = 0; n < 50; n++)
            push(&lists[thread], round * 50 + n, thread);
        char *grown = NULL;
        for (size_t size = 16; size < 300000; size *= 2) {
            grown = realloc(grown, size);
            memset(grown + size / 2, round, size / 2);
        }
        free(grown);
    }
    return NULL;
}

static void files(void)
{
    for (int n = 0; n < 20; n++) {
        char name[32];
        snprintf(name, sizeof name, "file%d", n);
        FILE *file = fopen(name, "w+");
        for (int line = 0; line < n * 10; line++)
            fprintf(file, "line %d of %d\n", line, n);
        fclose(file);
    }
}

int main(int count, char **words)
{
    pthread_t threads[4];
    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], NULL, work, (void *)n);
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], NULL);
    for (int n = 0; n < 4; n++)
        stop_here(lists[n], n);
    if (count > 1 && strcmp(words[1], "wait") == 0)
        getchar();
    files();
    pid_t child = fork();
    if (child == 0) {
        push(&lists[0], 7, 9);
        _exit(strlen(lists[0]->text) == 19 ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    size_t length = 0;
    for (int n = 0; n < 4; n++)
        for (struct node *node = lists[n]; node; node = node->next)
            length += strlen(node->text) + (size_t)node->number;
    printf("child %d, length %zu\n", WEXITSTATUS(status), length);
    return 0;
}
