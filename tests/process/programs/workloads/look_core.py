"""gdb runs this on a core. It prints the contents of the lists of workloads/traced.c."""

import gdb

for thread in range(4):
    node, count = gdb.parse_and_eval(f"lists[{thread}]"), 0
    while int(node):
        if count % 20 == 0:
            print(f"@@node {int(node['number'])} {node['text'].string()}")
        node, count = node["next"], count + 1
    print(f"@@list {thread} {count}")
print(f"@@rounds {int(gdb.parse_and_eval('rounds'))}")
