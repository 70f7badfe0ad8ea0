/* List: links structs into doubly linked rings. Each struct contains a link, whose pointers are both NULL while the struct is in no list. */
#pragma once

#include "base/base.h"

struct hk_link {
    struct hk_link *next, *prev;
};

struct hk_list {
    struct hk_link head;
};

HK_INLINE void hk_list_init(struct hk_list *list)
{
    list->head.prev = &list->head;
    __atomic_store_n(&list->head.next, &list->head, __ATOMIC_RELAXED);
}
HK_INLINE bool hk_list_empty(const struct hk_list *list) { return list->head.next == &list->head; }
/* Returns true if the list is empty. Reads the list without its lock, so the result may be outdated. */
HK_INLINE bool hk_list_looks_empty(const struct hk_list *list)
{
    return __atomic_load_n(&list->head.next, __ATOMIC_RELAXED) == &list->head;
}
HK_INLINE struct hk_link *hk_list_first(struct hk_list *list) { return hk_list_empty(list) ? NULL : list->head.next; }
HK_INLINE bool hk_link_linked(const struct hk_link *link) { return link->next != NULL; }

HK_INLINE void hk_link_insert_after(struct hk_link *where, struct hk_link *link)
{
    link->next = where->next;
    link->prev = where;
    where->next->prev = link;
    __atomic_store_n(&where->next, link, __ATOMIC_RELAXED);
}
HK_INLINE void hk_list_push_front(struct hk_list *list, struct hk_link *link)
{
    hk_link_insert_after(&list->head, link);
}
HK_INLINE void hk_list_push_back(struct hk_list *list, struct hk_link *link)
{
    hk_link_insert_after(list->head.prev, link);
}
HK_INLINE void hk_link_remove(struct hk_link *link)
{
    __atomic_store_n(&link->prev->next, link->next, __ATOMIC_RELAXED);
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}
HK_INLINE void hk_link_leave(struct hk_link *link)
{
    if (hk_link_linked(link))
        hk_link_remove(link);
}

/* Holds the position of a walk that visits a list in several steps. Code that changes the list between two steps must update the position. */
struct hk_walk {
    struct hk_link *at; /* the next link to visit, or the list's head at the end; NULL while no walk is under way */
    unsigned within;    /* progress within the struct of that link; 0 if its visit has not begun */
};

/* Removes a link from its list. If the walk is at this link, moves the walk to the next link. */
HK_INLINE void hk_link_remove_under(struct hk_link *link, struct hk_walk *walk)
{
    if (walk->at == link) {
        walk->at = link->next;
        walk->within = 0;
    }
    hk_link_remove(link);
}
/* Moves a link to the end of its list. If the walk is at this link, moves the walk to the next link. */
HK_INLINE void hk_list_move_to_back(struct hk_list *list, struct hk_link *link, struct hk_walk *walk)
{
    hk_link_remove_under(link, walk);
    hk_list_push_back(list, link);
}
