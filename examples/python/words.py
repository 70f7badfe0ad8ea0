"""An unmodified Python program; HAKMEM comes by hakmem-run (or `hakmem run`):
  PYTHONMALLOC=malloc hakmem-run --report - python3 words.py
PYTHONMALLOC=malloc switches Python's own allocator of small objects off; without it, HAKMEM serves what is larger than 512 bytes."""
import collections
import json

text = " ".join(f"word{n * n % 5003}" for n in range(300_000))
counts = collections.Counter(text.split())
again = json.loads(json.dumps(counts))
print(len(again), "words, the most frequent", counts.most_common(1)[0])
