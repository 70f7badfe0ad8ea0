#include "span/held.h"

struct hk_held hk_held;
