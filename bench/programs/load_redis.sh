#!/bin/sh
# load_redis.sh SOCKET REQUESTS: fills and reads a redis server, a pinned number of requests, and ends it.
set -eu

until [ "$(redis-cli -s "$1" ping 2>/dev/null)" = PONG ]; do sleep 0.02; done
for size in 20 300; do
  redis-benchmark -s "$1" -n "$2" -r 50000 -d "$size" -c 20 -P 16 -q -t set,get,incr,lpush,rpop,sadd,hset,zadd >&2
done
redis-benchmark -s "$1" -n "$2" -r 50000 -c 20 -P 16 -q append key:__rand_int__ some-text-more >&2
redis-cli -s "$1" shutdown nosave
