% Four threads assert, sort, hash and retract; every line depends on the numbers alone.
:- dynamic kept/3.

main :-
    numlist(1, 4, Threads),
    concurrent_maplist(fill, Threads),
    forall(member(T, Threads), report(T)),
    garbage_collect_atoms, garbage_collect_clauses,
    aggregate_all(count, kept(_, _, _), Left), format("left=~w~n", [Left]),
    numlist(1, 300, Ns), foldl([N, A, B]>>(B is A * N), Ns, 1, Factorial), term_hash(Factorial, Hash), format("factorial=~w~n", [Hash]).

fill(T) :-
    forall(between(1, 20000, N),
           ( X is (N * 7919 * T) mod 10007, atom_concat(word, X, Atom), string_concat(Atom, T, String),
             assertz(kept(T, Atom, [N, String, f(X, Atom)])) )),
    forall(between(1, 20000, N), ( N mod 3 =:= 0 -> X is (N * 7919 * T) mod 10007, atom_concat(word, X, A), ignore(retract(kept(T, A, _))) ; true )).

report(T) :-
    forall(between(0, 99, Part),
           ( findall(A-L, ( kept(T, A, L), L = [N|_], N mod 100 =:= Part ), Found),
             msort(Found, Sorted), term_hash(Sorted, Hash), length(Sorted, Length),
             format("thread~w_part~w=~w_~w~n", [T, Part, Length, Hash]) )).
