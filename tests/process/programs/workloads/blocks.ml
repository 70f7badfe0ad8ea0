(* Threads with tables, bigarrays (malloc), marshalling and regular collections; every line depends on the numbers alone. *)
let digest v = Digest.to_hex (Digest.string (Marshal.to_string v [Marshal.No_sharing]))
let lock = Mutex.create ()
let say name value = Mutex.lock lock; Printf.printf "%s=%s\n" name value; Mutex.unlock lock

let work thread =
  for round = 1 to 60 do
    let table = Hashtbl.create 16 in
    for n = 1 to 3000 do
      let key = Printf.sprintf "%x" ((n * 7919 * thread + round) mod 4093) in
      Hashtbl.replace table key (n :: (try Hashtbl.find table key with Not_found -> []))
    done;
    let sorted = List.sort compare (Hashtbl.fold (fun k v rest -> (k, v) :: rest) table []) in
    let blocks = Array.init 200 (fun n ->
      let a = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (1 + n * round) in
      Bigarray.Array1.fill a (n * thread); a) in
    let sum = Array.fold_left (fun s a -> s + a.{Bigarray.Array1.dim a - 1} * Bigarray.Array1.dim a) 0 blocks in
    let text = Buffer.create 16 in
    List.iter (fun (k, v) -> Buffer.add_string text k; Buffer.add_string text (string_of_int (List.length v))) sorted;
    let back : (string * int list) list = Marshal.from_string (Marshal.to_string sorted []) 0 in
    if back <> sorted then say "wrong" "marshal";
    say (Printf.sprintf "thread%d_round%d" thread round) (Printf.sprintf "%s_%d" (digest (Buffer.contents text)) sum);
    if round mod 10 = 0 then Gc.compact () else Thread.yield ()
  done

let () =
  let threads = List.init 4 (fun n -> Thread.create work (n + 1)) in
  List.iter Thread.join threads;
  let children = List.init 4 (fun n ->
    let back, out = Unix.pipe () in
    match Unix.fork () with
    | 0 -> let c = Unix.out_channel_of_descr out in
           output_value c (List.init 20000 (fun k -> string_of_int (k * n))); close_out c; Unix._exit 0
    | pid -> Unix.close out; (n, pid, Unix.in_channel_of_descr back)) in
  List.iter (fun (n, pid, back) ->
    let v : string list = input_value back in
    ignore (Unix.waitpid [] pid); say (Printf.sprintf "child%d" n) (digest v)) children
