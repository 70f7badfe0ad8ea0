%% Processes on all schedulers build terms, binaries and tables and send them to each other; every line depends on the numbers alone.
-module(terms).
-export([main/0]).

main() ->
    Table = ets:new(kept, [public, set, {write_concurrency, true}]),
    Parent = self(),
    [spawn_link(fun() -> Parent ! {N, work(N, Table)} end) || N <- lists:seq(1, 300)],
    [receive {N, Found} -> io:format("process~w=~8.16.0b~n", [N, Found]) end || N <- lists:seq(1, 300)],
    io:format("table=~w~n", [erlang:phash2(lists:sort(ets:tab2list(Table)))]),
    Ring = lists:foldl(fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end, Parent, lists:seq(1, 2000)),
    Ring ! {token, <<>>},
    receive {token, Bin} -> io:format("ring=~w~n", [erlang:phash2(Bin)]) end,
    Packed = zlib:compress(term_to_binary([{N, integer_to_binary(N * N)} || N <- lists:seq(1, 50000)])),
    io:format("packed=~w~n", [erlang:phash2(binary_to_term(zlib:uncompress(Packed)))]).

pass(Next) -> receive {token, Bin} -> Next ! {token, <<Bin/binary, (byte_size(Bin)):16>>} end.

work(N, Table) ->
    Words = [integer_to_list((N * K * 7919) rem 99991) || K <- lists:seq(1, 400)],
    Map = lists:foldl(fun(W, M) -> maps:update_with(W, fun(C) -> C + 1 end, 1, M) end, #{}, Words),
    Big = binary:copy(list_to_binary(Words), 1 + N rem 40),
    Parts = binary:split(Big, <<"7">>, [global]),
    ets:insert(Table, {N, Parts}),
    erlang:garbage_collect(),
    erlang:phash2({lists:sort(maps:to_list(Map)), Parts, erlang:md5(Big)}, 1 bsl 32).
