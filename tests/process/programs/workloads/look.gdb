set pagination off
set confirm off
set width 0
set print address off
set breakpoint pending on
set disable-randomization on
break stop_here
commands
  silent
  printf "@@stop thread %d\n", thread
  python look(gdb.selected_frame().read_var("list"))
  bt 2
  continue
end
python
import hashlib
def look(node):
    count, text = 0, hashlib.md5()
    while int(node):
        text.update(("%d %s\n" % (int(node["number"]), node["text"].string())).encode())
        if count % 20 == 0:
            print("@@node %d %s" % (int(node["number"]), node["text"].string()))
        node, count = node["next"], count + 1
    print("@@list %d %s" % (count, text.hexdigest()))
end
run
info line main
ptype struct node
quit
