%% Programs of many short lives. None is linked: what ends here ends well, or the sum is never told.
-module(savina_lives).
-export([create/1, fibonacci/1, tree/1]).
-import(savina, [draw/1, tally/2]).

%% create: a master spawns all its workers at once; each handles one message, reports, and ends.
create(N) ->
    Referee = self(),
    Master = spawn_link(fun() ->
        receive start -> fork(self(), 0, N) end,
        Referee ! {sum, tally(N, 0)}
    end),
    Sum = N * (N - 1) div 2,
    fun() ->
        Master ! start,
        receive {sum, Total} -> Sum = Total end,
        N
    end.

fork(_, N, N) -> ok;
fork(Master, Number, N) ->
    spawn(fun() -> receive {work, Given} -> Master ! {report, Given} end end) ! {work, Number},
    fork(Master, Number + 1, N).

%% fibonacci: a process for every call, which spawns one for each of the two calls below it, adds up, and ends.
fibonacci(N) ->
    {Number, Result} = largest_call(N, 1, 1, 1),
    fun() ->
        Caller = self(),
        spawn(fun() -> call(Caller) end) ! {request, Number},
        receive {answer, Answer} -> Result = Answer end,
        2 * Result - 1
    end.

largest_call(N, Number, Result, Following) when 2 * Following - 1 =< N ->
    largest_call(N, Number + 1, Following, Result + Following);
largest_call(_, Number, Result, _) ->
    {Number, Result}.

call(Caller) ->
    receive
        {request, Number} when Number =< 2 ->
            Caller ! {answer, 1};
        {request, Number} ->
            Me = self(),
            spawn(fun() -> call(Me) end) ! {request, Number - 1},
            spawn(fun() -> call(Me) end) ! {request, Number - 2},
            receive {answer, One} -> receive {answer, Other} -> Caller ! {answer, One + Other} end end
    end.

%% tree: nodes that know their parent and the root. Each asks the root whether it may have ten children; chance
%% decides. Then two walks down all branches count the nodes; with the second they end.
tree(N) ->
    Referee = self(),
    Nodes = max(N div 62, 1) * 10,
    Root = spawn_link(fun() -> receive start -> plant(Nodes, Referee) end end),
    Counted = 2 * Nodes,
    fun() ->
        Root ! start,
        receive {counted, Count} -> Counted = Count end,
        6 * Nodes + 2 * (Nodes div 10 - 1) + 1
    end.

plant(Nodes, Referee) ->
    Children = branches(self(), self()),
    decide(Nodes - 10, 10, 1, 0),
    Once = walk(Children, walk),
    Twice = walk(Children, 'end'),
    Referee ! {counted, Once + Twice}.

%% Until every node there is has asked. The root counts its children that grow, as nodes do.
decide(_, 0, _, _) -> ok;
decide(Ungrown, Undecided, Seed, Grown) ->
    receive
        {may_grow, Node} when Ungrown > 0 ->
            Drawn = draw(Seed),
            case Drawn band 4096 of
                0 -> decide(Ungrown, Undecided - 1, Drawn, Grown);
                _ -> Node ! grow, decide(Ungrown - 10, Undecided + 9, Drawn, Grown)
            end;
        {may_grow, _} ->
            decide(Ungrown, Undecided - 1, Seed, Grown);
        grown ->
            decide(Ungrown, Undecided, Seed, Grown + 1)
    end.

branches(Parent, Root) ->
    Children = [spawn(fun() -> leaf(Parent, Root) end) || _ <- lists:seq(1, 10)],
    lists:foreach(fun(Child) -> Child ! 'try' end, Children),
    Children.

leaf(Parent, Root) ->
    receive
        'try' -> Root ! {may_grow, self()}, leaf(Parent, Root);
        grow  -> Parent ! grown, branch(Parent, branches(self(), Root), 0);
        walk  -> Parent ! {count, 1}, leaf(Parent, Root);
        'end' -> Parent ! {count, 1}
    end.

branch(Parent, Children, Grown) ->
    receive
        grown -> branch(Parent, Children, Grown + 1);
        walk  -> Parent ! {count, 1 + walk(Children, walk)}, branch(Parent, Children, Grown);
        'end' -> Parent ! {count, 1 + walk(Children, 'end')}
    end.

walk(Children, Message) ->
    lists:foreach(fun(Child) -> Child ! Message end, Children),
    add_counts(10, 0).

add_counts(0, Sum) -> Sum;
add_counts(Left, Sum) -> receive {count, Count} -> add_counts(Left - 1, Sum + Count) end.
